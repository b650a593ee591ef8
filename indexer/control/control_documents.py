"""Several documents of the control index at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from indexer.context import IndexerContext
from indexer.errors import ElasticsearchError, error_reason
from indexer.indices.backoff import Backoff, retry

_NO_INDEX = "index_not_found_exception"


async def read_documents(context: IndexerContext, ids: Sequence[str]) -> list[Mapping[str, Any] | None]:
    """Return the documents in this order, None for each that does not exist.

    Elasticsearch reports what it cannot read at the moment within a successful response. That is retried for
    `retry_seconds`, then raises ElasticsearchError: to take it for absent would start over what is only unreachable.
    """
    client, index = context.client.options(ignore_status=404), context.connection.control_index
    backoff = Backoff(context.settings.retry_seconds)
    while True:
        response = await retry(lambda: client.mget(index=index, ids=[*ids]), context.settings.retry_seconds)
        documents: list[dict[str, Any]] = response.get("docs", [{}] * len(ids))
        unread = next(filter(_is_unread, documents), None)
        if unread is None:
            return [document if document.get("found") else None for document in documents]
        failure = ElasticsearchError(f"The control index cannot be read: {error_reason(unread)}.")
        if not await backoff.wait(failure):
            raise failure


def _is_unread(document: Mapping[str, Any]) -> bool:
    return "error" in document and document["error"]["type"] != _NO_INDEX
