"""What the service tells operators of its own work: numbers for metrics, lines for logs, spans for traces."""
