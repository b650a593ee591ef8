"""Elasticsearch as the indexer uses it: bulk writes with backoff, scans, generations and preflight checks."""
