"""How the cluster is reached: settings, client and control documents, shared by service, indexer and command line."""
