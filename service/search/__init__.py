"""Elasticsearch for requests: queries, pages, retries, request coalescing and cached reference data."""
