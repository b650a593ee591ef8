"""Changes, snapshots and digests over real HTTP and the real indexer."""
