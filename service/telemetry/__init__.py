"""Observability of the service: metrics, logs and traces."""
