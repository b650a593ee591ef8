"""The operators' console: one page beside the metrics that says whether all is well, and what is not."""
