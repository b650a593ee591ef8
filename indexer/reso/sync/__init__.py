"""Keeping the mirror in step with the source: initial load, incremental changes, key comparison."""
