"""Query parameters: a vocabulary of fields, shared groups, and the parser that reports all faults at once."""
