"""`$expand`: related entities as members of an entity."""
