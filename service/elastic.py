"""The only module that calls Elasticsearch on behalf of requests; no error of the client leaves it."""

from __future__ import annotations

import time
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from elastic_transport import (
    ConnectionError,  # noqa: A004 - the client's name for it
    ConnectionTimeout,
    TlsError,
    TransportError,
)

from service.answer import refuse_partial, source
from service.errors import DeadlinePassed, EngineUnavailable, NotElasticsearch, ResourceUnavailable
from service.failures import NodeLost, failed, refusal, unintelligible
from service.flights import Flights
from service.metrics import SHARED_SEARCHES
from service.retries import Retries
from service.telemetry.attempts import Attempts
from service.telemetry.observation import OBSERVED

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from elastic_transport import AsyncTransport

    from service.errors import ApiError
    from service.settings import ServiceSettings
    from service.telemetry.attempts import Trace

# The engine gives up this long before the request's deadline, so that its own answer is the one that arrives.
_ENGINE_MARGIN_SECONDS = 0.5
# The client gives up this long after it: by then whoever asked has been answered, and the search cancelled.
_CLIENT_MARGIN_SECONDS = 1.0
# Walks that are followed at a time; a search is about 300 bytes.
_MOST_EXPECTED = 1_000
# Every answer of Elasticsearch names it.
_PRODUCT = "x-elastic-product"
# What any other web server says too: with them the name counts, since the answer would be believed.
_BELIEVED = {200, 404}
# What whoever asked has to judge; any other status is a failure.
_TOLD = {200, 401, 403, 404}
# JSON both ways lets Elasticsearch copy the stored source into the answer without parsing it.
_JSON = {"accept": "application/json", "content-type": "application/json"}


class Engine:
    """Searches and reads documents within a deadline, or raises an ApiError."""

    def __init__(
        self,
        transport: AsyncTransport,
        headers: Mapping[str, str],
        settings: ServiceSettings,
        trace: Trace | None = None,
    ) -> None:
        """Use the transport of a client of `cluster.connection.connect`, with the headers that every request needs.

        `trace` begins the span of each request.
        """
        self._transport = transport
        self._headers = {**headers, **_JSON}
        milliseconds = max(1, round((settings.deadline_seconds - _ENGINE_MARGIN_SECONDS) * 1000))
        # Later than the request's deadline, so that exactly one clock fires. It ends what has no request's deadline.
        self._retries = Retries(settings.connections, settings.deadline_seconds + _CLIENT_MARGIN_SECONDS)
        self._flights: Flights[bytes] = Flights(_shared, settings.shared_seconds)
        self.attempts = Attempts(trace)
        self._expected: OrderedDict[tuple[str, bytes], bool] = OrderedDict()
        # When it last answered anything, in monotonic seconds.
        self.answered_at = float("-inf")
        # Titles of resources by alias whose index is not one to answer from; kept up to date by `service.watch`.
        self.refused: Mapping[str, str] = {}
        # Partial results answer 200 with rows missing unless they are refused outright.
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
            self._flights.begin_ahead((*following_asked, since), search)

    async def search_anew(self, index: str, body: Mapping[str, object]) -> bytes:
        """Return the same of a search that begins now."""
        return await self._search(index, orjson.dumps(body))

    async def ask(self, target: str) -> tuple[int, Any]:
        """Return the status and the parsed answer to a GET: 200, or with None 404, or 401 or 403 where rights lack."""
        return await self._asked("GET", target, None)

    async def bulk(self, alias: str, lines: bytes) -> tuple[int, Any]:
        """Write documents through an alias, which is never made by it, and return the same as `ask` does."""
        return await self._asked("POST", f"/{alias}/_bulk?require_alias=true", lines)

    async def _asked(self, method: str, target: str, body: bytes | None) -> tuple[int, Any]:
        status, answer = await self.call(method, target, body)
        if status != 200:
            return status, None
        try:
            return status, orjson.loads(answer)
        except ValueError:
            raise unintelligible(answer) from None

    async def _search(self, index: str, body: bytes) -> bytes:
        self.refuse_unsound(index)
        return await self.search_whole(f"/{index}", body)

    def refuse_unsound(self, index: str) -> None:
        """Raise ResourceUnavailable for an index that is not one to answer from."""
        if (title := self.refused.get(index)) is not None:
            raise ResourceUnavailable(title)

    async def search_whole(self, place: str, body: bytes) -> bytes:
        """Return the whole answer of a search of a place, which is an index, or none where the body names it."""
        status, answer = await self.call("POST", f"{place}/_search?{self._search_options}", body)
        if status != 200:
            raise refusal(status, answer, body)
        refuse_partial(answer)
        return answer

    async def document(self, index: str, identifier: str) -> dict[str, Any] | None:
        """Return the source of one document as last written, refreshed or not; None when there is none."""
        status, answer = await self.call("GET", f"/{index}/_doc/{quote(identifier, safe='')}", None)
        if status == 404 and b'"found":false' in answer:
            return None
        if status != 200:
            raise refusal(status, answer, None)
        return source(answer, identifier)

    async def call(self, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        """Return the status, 200, 401, 403 or 404, and the body; raise for every other status."""
        return await self._retries.run(partial(self._attempt, method, target, body))

    async def _attempt(self, method: str, target: str, body: bytes | None, seconds: float) -> tuple[int, bytes]:
        with self.attempts.begun(method, target) as attempt:
            try:
                response = await self._transport.perform_request(
                    method, target, body=body, headers=self._headers, max_retries=0, request_timeout=seconds
                )
            except TransportError as error:
                raise _broken(error) from error
            attempt.status = response.meta.status
        status, answer = response.meta.status, response.body
        if not isinstance(answer, bytes | bytearray):
            # A proxy in between answers in text or HTML, which the transport hands over as a string; other types it
            # parses.
            answer = str(answer).encode(errors="replace")
        if response.meta.headers.get(_PRODUCT) == "Elasticsearch":
            self.answered_at = time.monotonic()
        elif status in _BELIEVED:
            raise failed("unintelligible", NotElasticsearch())
        if status not in _TOLD:
            raise refusal(status, answer, body)
        return status, answer


def _shared() -> None:
    SHARED_SEARCHES.inc()
    if (seen := OBSERVED.get(None)) is not None:
        seen.is_shared = True


def _broken(error: TransportError) -> ApiError:
    """Return the error for an attempt that brought no answer."""
    reason = f"{type(error).__name__}: {error.message}"
    if isinstance(error, ConnectionTimeout):
        return failed("timeout", DeadlinePassed())
    if isinstance(error, ConnectionError) and not isinstance(error, TlsError):
        return failed("connection", NodeLost(reason))
    return failed("unintelligible", EngineUnavailable(reason))
