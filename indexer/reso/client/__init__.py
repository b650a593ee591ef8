"""HTTP client of a RESO Web API: OData queries, access tokens, rate limit, retries."""
