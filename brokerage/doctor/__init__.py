"""`brokerage doctor`: checks of settings, Redis, Elasticsearch, indices and keys."""
