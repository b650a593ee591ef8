"""Golden responses: two checkouts answer one table of requests over the same data, byte for byte the same."""
