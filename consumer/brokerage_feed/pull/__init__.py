"""`brokerage pull`: keep a verified copy of the data that an API key can read."""
