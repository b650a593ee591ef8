"""What the failures of bulk requests mean."""

import re

from indexer.errors import BlockedError, ElasticsearchError, error_reason, is_write_block

# In a rejection under memory pressure: the bytes of this request alone, and the most that any may have.
_OWN_BYTES = re.compile(r"_operation_bytes=([0-9]+), max_[a-z_]+=([0-9]+)")


def exceeds_memory(body: object) -> bool:
    """Whether a request was rejected because it alone exceeds what Elasticsearch sets aside for writes.

    Waiting does not help, unlike with a rejection because of other requests.
    """
    match = _OWN_BYTES.search(error_reason(body))
    return match is not None and int(match[1]) > int(match[2])


def never_accepted(body: object) -> str:
    """Return the reason for a document that no amount of waiting helps."""
    return (
        f"is too large for Elasticsearch: {error_reason(body)}. Shorten the record, or give Elasticsearch more memory"
    )


def refused_alone(error: Exception) -> str:
    """Return the reason for a document that was rejected while others were accepted."""
    return f"was rejected while others were accepted: {str(error).rstrip('.')}. Shorten the record"


def bulk_error(status: int, body: object) -> ElasticsearchError:
    """Return the error for a request, or a document of it, that failed for good."""
    if is_write_block(body):
        return BlockedError(body)
    return ElasticsearchError(f"Elasticsearch returned {status} to a bulk request: {error_reason(body)}.")


def lacks_routing(entry: dict[str, object]) -> bool:
    """Whether a document was sent without the routing value that an index of several shards requires."""
    error = entry.get("error")
    return isinstance(error, dict) and error.get("type") == "routing_missing_exception"
