"""Typed tables: columns, SQLite views and Parquet files."""
