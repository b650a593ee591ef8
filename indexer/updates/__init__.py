"""Incremental updates: read, apply, publish and checkpoint a stream of changes."""
