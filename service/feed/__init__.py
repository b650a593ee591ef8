"""The change feed: changes, snapshots and digests of each resource (decision 12)."""
