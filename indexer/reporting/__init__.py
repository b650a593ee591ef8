"""Reports of a run: counts per resource, dead letters, tolerances, progress displays."""
