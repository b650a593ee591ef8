"""`brokerage audit`: who holds a record."""
