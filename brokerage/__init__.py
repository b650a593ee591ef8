"""The command line: one `brokerage` command that composes service, indexer, embedded node and sample data."""
