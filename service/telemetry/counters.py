"""Prometheus counters of the service."""

from prometheus_client import Counter

UNMARKED_RESPONSES = Counter(
    "brokerage_unmarked_answers",
    "Elasticsearch responses that had to be parsed because the indexer had not written one of the documents.",
)
SHARED_SEARCHES = Counter("brokerage_shared_searches", "Searches saved because an identical one was in flight.")
RETRIES = Counter(
    "brokerage_retries",
    "Retries after the loss of a node: answered, failed, given up by the client, or refused by the budget.",
    ["outcome"],
)
ENGINE_FAILURES = Counter("brokerage_elasticsearch_failures", "Failed requests to Elasticsearch, by kind.", ["kind"])
LIMIT_HITS = Counter("brokerage_limit_hits", "Requests counted against the rate limit of their key.")
LIMIT_REFUSALS = Counter(
    "brokerage_limit_refusals",
    "Requests refused with 429: rate, concurrency or unread responses of the key, its share of long-held slots, or "
    "failed authentications of the address.",
    ["kind"],
)
DELAYED_REFUSALS = Counter(
    "brokerage_refusals_delayed", "Refusals that waited for their turn, because the client was refused too often."
)
ABORTED_CONNECTIONS = Counter(
    "brokerage_connections_aborted",
    "Connections aborted because the client took too little of a response in time (stalled), or because too many bytes "
    "were waiting for clients (unsent).",
    ["reason"],
)
LIMIT_FAIL_OPENS = Counter(
    "brokerage_limit_fail_opens", "Requests counted in this process only, because Redis was unreachable."
)
KEY_USAGE_FAILURES = Counter("brokerage_key_usage_failures", "Failed attempts to record the last use of keys.")
AUDIT_ROWS = Counter("brokerage_audit_rows", "Rows of the audit that were written: what keys were sent.")
AUDIT_LOST = Counter(
    "brokerage_audit_lost", "Records that keys were sent and that the audit could not record: memory was full."
)
AUDIT_FAILURES = Counter("brokerage_audit_failures", "Failed attempts to write the audit.")
