"""The only module that calls Elasticsearch on behalf of requests; no error of the client leaves it."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from elastic_transport import ConnectionTimeout, TransportError

from service.answer import refuse_partial
from service.errors import DeadlinePassed, EngineUnavailable, InternalError
from service.flights import Flights

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Mapping

    from elastic_transport import AsyncTransport

# The engine gives up this long before the request's deadline, so that its own answer is the one that arrives.
_ENGINE_MARGIN_SECONDS = 0.5
# A page that is read ahead is as old as this at most when it is sent. Who takes longer for a page asks anew.
_AHEAD_SECONDS = 1.0
# Walks that are followed at a time; a search is about 300 bytes.
_MOST_EXPECTED = 1_000
# JSON both ways lets Elasticsearch copy the stored source into the answer without parsing it.
_JSON = {"accept": "application/json", "content-type": "application/json"}


class Engine:
    """Searches and reads documents within a deadline, or raises an ApiError."""

    def __init__(self, transport: AsyncTransport, headers: Mapping[str, str], deadline_seconds: float) -> None:
        """Use the transport of a client of `cluster.connection.connect`, with the headers that every request needs."""
        self._transport = transport
        self._headers = {**headers, **_JSON}
        milliseconds = max(1, round((deadline_seconds - _ENGINE_MARGIN_SECONDS) * 1000))
        # Partial results answer 200 with rows missing unless they are refused outright.
        # Later than the request's deadline, so that exactly one clock fires.
        self._timeout = deadline_seconds + 1
        self._flights: Flights[bytes] = Flights()
        self._expected: OrderedDict[tuple[str, bytes], bool] = OrderedDict()
        self._search_options = f"allow_partial_search_results=false&timeout={milliseconds}ms"

    async def search(self, index: str, body: Mapping[str, object], since: Hashable = None) -> bytes:
        """Return the whole, unparsed answer of one search, which others may read too.

        Those who ask the same at once share one search, unless they differ in `since`: what they have read before of
        the state of the index, which the answer must not be older than.
        """
        encoded = orjson.dumps(body)
        return await self._flights.join((index, encoded, since), partial(self._search, index, encoded))

    def walked(self, index: str, body: Mapping[str, object], following: Mapping[str, object], since: Hashable) -> None:
        """Take note that a page was answered, and of the search for the next: of who walks on, it is begun ahead.

        Who has come for the page that followed another is walking, and will come for one more. While its page is on
        the way Elasticsearch would have nothing to do; where it has, nothing is begun.
        """
        asked, following_asked = (index, orjson.dumps(body)), (index, orjson.dumps(following))
        is_walking = self._expected.pop(asked, False)
        self._expected[following_asked] = True
        if len(self._expected) > _MOST_EXPECTED:
            self._expected.popitem(last=False)
        if is_walking:
            search = partial(self._search, *following_asked)
            self._flights.begin_ahead((*following_asked, since), search, _AHEAD_SECONDS)

    async def search_anew(self, index: str, body: Mapping[str, object]) -> bytes:
        """Return the same of a search that begins now."""
        return await self._search(index, orjson.dumps(body))

    async def _search(self, index: str, body: bytes) -> bytes:
        status, answer = await self._call("POST", f"/{index}/_search?{self._search_options}", body)
        if status != 200:
            raise _failure(status, answer)
        with _understood(answer):
            refuse_partial(answer)
        return answer

    async def document(self, index: str, identifier: str) -> dict[str, Any] | None:
        """Return the source of one document as last written, refreshed or not; None when there is none."""
        status, answer = await self._call("GET", f"/{index}/_doc/{quote(identifier, safe='')}", None)
        if status == 404 and b'"found":false' in answer:
            return None
        if status != 200:
            raise _failure(status, answer)
        with _understood(answer):
            source: dict[str, Any] = orjson.loads(answer)["_source"]
        return source

    async def _call(self, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        try:
            response = await self._transport.perform_request(
                method, target, body=body, headers=self._headers, max_retries=0, request_timeout=self._timeout
            )
        except ConnectionTimeout as error:
            raise DeadlinePassed from error
        except TransportError as error:
            raise EngineUnavailable(f"{type(error).__name__}: {error}") from error
        if response.meta.status == 200 and response.meta.headers.get("x-elastic-product") != "Elasticsearch":
            raise EngineUnavailable("What answers under the cluster's address is not Elasticsearch.")
        answer = response.body
        # A proxy in between answers in text or HTML, which the transport hands over as a string; other types it parses.
        is_raw = isinstance(answer, bytes | bytearray)
        return response.meta.status, answer if is_raw else str(answer).encode(errors="replace")


@contextmanager
def _understood(answer: bytes) -> Iterator[None]:
    """Turn what is no answer of Elasticsearch, whatever its status says, into an error with the text for the log."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise InternalError(f"Elasticsearch answered what is no answer: {answer[:2000]!r}") from error


def _failure(status: int, answer: bytes) -> DeadlinePassed | EngineUnavailable | InternalError:
    """Choose the answer for a refusal of Elasticsearch (the reasons stay in the log)."""
    text = answer[:2000].decode(errors="replace")
    if status in {429, 504} and "search_timeout_exception" in text:
        return DeadlinePassed()
    if status in {404, 429, 502, 503, 504}:
        # 404 is a missing alias: a gap in operations, never an empty list.
        return EngineUnavailable(f"Elasticsearch answered {status}: {text}")
    return InternalError(f"Elasticsearch refused a query with {status}: {text}")
