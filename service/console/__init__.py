"""The operators' console on the metrics port: one page that shows whether everything is healthy, and the metrics."""
