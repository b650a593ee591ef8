"""Status and compaction of indices, and pruning of generations and tombstones."""
