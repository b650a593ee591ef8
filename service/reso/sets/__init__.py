"""The entity sets: their properties, and the queries that read, sort and count their rows."""
