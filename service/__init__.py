"""How records are asked for: the read API over the aliases that the indexer maintains."""
