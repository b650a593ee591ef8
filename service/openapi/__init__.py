"""The OpenAPI 3.1 document, generated from the declared operations, parameters and resources."""
