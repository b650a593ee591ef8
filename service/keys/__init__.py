"""API keys: their text form, their record in Elasticsearch, and the cache requests are checked against."""
