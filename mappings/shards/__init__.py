"""Several shards in one index: ranges of the feed key, and which copy of a record readers see while it moves."""
