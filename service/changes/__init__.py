"""Changes, snapshots and digests: how consumers keep copies (decision 12)."""
