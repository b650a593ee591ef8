"""Records as tables with typed columns, derived from the typed records: SQLite views and Parquet files."""
