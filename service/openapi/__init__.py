"""The OpenAPI 3.1 document: made from the operations, parameters and resources that the service answers by."""
