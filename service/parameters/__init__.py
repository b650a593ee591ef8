"""Query parameters: their types, clauses and shared groups, and the parser, which reports all errors at once."""
