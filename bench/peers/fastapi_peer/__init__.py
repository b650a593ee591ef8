"""The listings feed as most teams would write it: FastAPI, pydantic, the official Elasticsearch client."""
