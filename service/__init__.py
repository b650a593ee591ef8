"""The read-only HTTP API over the index aliases that the indexer maintains."""
