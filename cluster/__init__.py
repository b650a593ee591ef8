"""Access to Elasticsearch: settings, client and control documents, shared by service, indexer and commands."""
