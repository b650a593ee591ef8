"""Tests of the HTTP layer under the Elasticsearch client, over real sockets."""
