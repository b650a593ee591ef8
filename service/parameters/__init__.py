"""Query parameters: their types, clauses and shared groups, and the parser, which reports several errors at once."""
