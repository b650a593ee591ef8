"""Inspection of a source without Elasticsearch: its faults, fields, identifiers and references."""
