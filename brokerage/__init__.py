"""The `brokerage` command: service, indexer, embedded node, sample data and consumer in one program."""
