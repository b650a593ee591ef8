"""`brokerage keys`: create, list, rotate, expire and revoke API keys."""
