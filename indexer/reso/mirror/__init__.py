"""The local copy of a source in SQLite: records, the links between them, and pending changes."""
