"""Entity sets that describe the others: their lookups and their fields."""
