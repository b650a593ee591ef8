"""Reads of records by identifier, without a search."""
