"""How much a key and an address may ask for: requests a minute, at a time, and wrong keys (decision 11)."""
