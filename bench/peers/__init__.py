"""The same feed as others would build it, beside the service in one run.

Each peer serves `GET /v1/listings` and `GET /v1/listings/{id}` of the same records, with the parameters that the feed
sends, behind one API key. They are small, and tuned as a good team would: prepared statements, keyset paging, no
access log.
"""
