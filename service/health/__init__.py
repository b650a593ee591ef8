"""Health checks of Elasticsearch and its indices, and the probes that report the results."""
