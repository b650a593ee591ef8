"""EntityEvent: the numbered log of changes, read from the event ledger."""
