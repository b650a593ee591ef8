"""The only module that calls Elasticsearch on behalf of requests; no error of the client leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from elastic_transport import ConnectionTimeout, TransportError
from elasticsearch import ApiError, UnsupportedProductError

from cluster.raw import RAW_HEADERS
from service.answer import refuse_partial
from service.errors import DeadlinePassed, EngineUnavailable, InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from elasticsearch import AsyncElasticsearch

# The engine gives up this long before the request's deadline, so that its own answer is the one that arrives.
_ENGINE_MARGIN_SECONDS = 0.5


class Engine:
    """Searches and reads documents within a deadline, or raises an ApiError."""

    def __init__(self, client: AsyncElasticsearch, deadline_seconds: float) -> None:
        """Use a client of `cluster.connection.connect`."""
        self._client = client
        milliseconds = max(1, round((deadline_seconds - _ENGINE_MARGIN_SECONDS) * 1000))
        # Partial results answer 200 with rows missing unless they are refused outright.
        self._search_options = f"allow_partial_search_results=false&timeout={milliseconds}ms"

    async def search(self, index: str, body: Mapping[str, object]) -> bytes:
        """Return the whole, unparsed answer of one search."""
        status, answer = await self._call("POST", f"/{index}/_search?{self._search_options}", orjson.dumps(body))
        if status != 200:
            raise _failure(status, answer)
        refuse_partial(answer)
        return answer

    async def document(self, index: str, identifier: str) -> dict[str, Any] | None:
        """Return the source of one document as last written, refreshed or not; None when there is none."""
        status, answer = await self._call("GET", f"/{index}/_doc/{quote(identifier, safe='')}", None)
        if status == 404 and b'"found":false' in answer:
            return None
        if status != 200:
            raise _failure(status, answer)
        source: dict[str, Any] = orjson.loads(answer)["_source"]
        return source

    async def _call(self, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        try:
            response = await self._client.perform_request(method, target, body=body, headers=RAW_HEADERS)
        except ConnectionTimeout as error:
            raise DeadlinePassed from error
        except (TransportError, UnsupportedProductError) as error:
            raise EngineUnavailable(f"{type(error).__name__}: {error}") from error
        except ApiError as error:
            # A proxy in between answers in text or HTML, which the client hands over as a string.
            body = error.body.encode() if isinstance(error.body, str) else error.body
            return error.meta.status, body
        return response.meta.status, response.body


def _failure(status: int, answer: bytes) -> DeadlinePassed | EngineUnavailable | InternalError:
    """Choose the answer for a refusal of Elasticsearch (the reasons stay in the log)."""
    text = answer[:2000].decode(errors="replace")
    if status in {429, 504} and "search_timeout_exception" in text:
        return DeadlinePassed()
    if status in {404, 429, 502, 503, 504}:
        # 404 is a missing alias: a gap in operations, never an empty list.
        return EngineUnavailable(f"Elasticsearch answered {status}: {text}")
    return InternalError(f"Elasticsearch refused a query with {status}: {text}")
