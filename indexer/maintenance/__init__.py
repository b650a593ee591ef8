"""Status, rollback and pruning of generations and tombstones."""
