"""Admission control, and limits per key and address: request rate, concurrency, invalid keys (decisions 7 and 11)."""
