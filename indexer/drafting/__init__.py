"""Drafts of column maps: what the columns of a table probably are, by their names and values."""
