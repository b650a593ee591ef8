"""The documentation that the service serves under `/docs`: guides, a field dictionary, an interactive reference."""
