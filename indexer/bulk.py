"""Bulk requests as raw bytes, with their own retries and a verdict on every document."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from elasticsearch import ApiError, ConnectionError, ConnectionTimeout  # noqa: A004 - the client's name for it

from indexer.errors import EngineError, FencedError, reason
from indexer.retry import OVERLOADED, Patience, is_blocked

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elasticsearch import AsyncElasticsearch

    from indexer.documents import Draft
    from indexer.pace import Pace
    from indexer.settings import IndexerSettings

# As JSON the client passes the body on as it is; as NDJSON it would copy it twice, which costs more than all the rest.
BULK_HEADERS = dict.fromkeys(("accept", "content-type"), "application/vnd.elasticsearch+json; compatible-with=9")
# The answer then holds a few bytes per document, so that reading it costs next to nothing.
_FILTER = "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by"
_CREATED = 201
_MISSING = 404
_CONFLICT = 409
_REFUSED = frozenset({400, 413})


class Write(NamedTuple):
    """One document on its way: its source bytes under an external version. `draft` is None for a copy."""

    id: str
    version: int
    source: bytes
    draft: Draft | None = None


@dataclass
class Verdict:
    """What the engine made of some writes; those of which nothing is said were created.

    `repeated` are identifiers that were there before: repeated in the source, or sent twice since an answer was lost.
    `refused` come with the reason, a sentence without its full stop.
    """

    repeated: list[Write] = field(default_factory=list)
    refused: list[tuple[Write, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Terms:
    """Under which conditions a sender writes.

    `replaces_equal` writes over a document of the same version too. With `require_alias` the target must be an alias:
    taking it away fences out a writer that lost its lock. `opaque_id` names the holding in every request.
    """

    replaces_equal: bool = False
    require_alias: bool = False
    opaque_id: str | None = None


_PLAIN = Terms()


class Sender:
    """Sends writes to one index or alias, as fast as the engine takes them.

    One call sends its requests one after the other; those of several calls run together, as many as the pace allows.
    """

    def __init__(
        self, client: AsyncElasticsearch, index: str, pace: Pace, settings: IndexerSettings, terms: Terms = _PLAIN
    ) -> None:
        """Work out what is the same in every request."""
        self._client = client
        self.pace = pace
        self._seconds = settings.retry_seconds
        self._is_fenced = terms.require_alias
        kind = b"external_gte" if terms.replaces_equal else b"external"
        self._head = b'{"index":{"_id":%b,"version":%d,"version_type":"' + kind + b'"}}\n'
        self._path = f"/{index}/_bulk"
        self._parameters = {"filter_path": _FILTER} | ({"require_alias": "true"} if terms.require_alias else {})
        self._headers = dict(BULK_HEADERS)
        if terms.opaque_id:
            self._headers["x-opaque-id"] = terms.opaque_id

    async def send(self, writes: Sequence[Write]) -> Verdict:
        """Write all; raise EngineError when writes are blocked or the engine takes none for `retry_seconds`.

        Raises FencedError when the alias was taken away.
        """
        verdict, patience = Verdict(), Patience(self._seconds)
        pending = deque([writes] if writes else [])
        while pending:
            part, outcome = await self._attempt(pending, verdict)
            pending.extendleft(reversed(outcome.again))
            if sum(map(len, outcome.again)) < len(part):
                patience = Patience(self._seconds)
            if outcome.complaint is not None:
                if not await patience.wait():
                    raise outcome.complaint
                self.pace.retries += 1
        return verdict

    async def _attempt(self, pending: deque[Sequence[Write]], verdict: Verdict) -> tuple[Sequence[Write], _Outcome]:
        """Send as much of the first pending writes as the pace allows when their turn has come."""
        async with self.pace.slot() as slot:
            writes = pending.popleft()
            count = self.pace.fitting(writes)
            if count < len(writes):
                pending.appendleft(writes[count:])
            outcome = await self._post(writes[:count], verdict)
        if outcome.is_overload:
            self.pace.overloaded(slot)
        elif not outcome.again:
            self.pace.undisturbed()
        return writes[:count], outcome

    async def _post(self, part: Sequence[Write], verdict: Verdict) -> _Outcome:
        try:
            answer = await self._request(part)
        except ConnectionTimeout as error:
            return _Outcome([part], error, is_overload=True)
        except ConnectionError as error:
            return _Outcome([part], error)
        except ApiError as error:
            return _failed(part, error, verdict)
        busy = self._judge(part, answer["items"], verdict)
        if not busy:
            return _Outcome()
        complaint = EngineError(f"Elasticsearch has refused documents as overloaded for {self._seconds:g} s.")
        return _Outcome([busy], complaint, is_overload=True)

    async def _request(self, part: Sequence[Write]) -> Any:
        pieces: list[bytes] = []
        for write in part:
            pieces += (self._head % (orjson.dumps(write.id), write.version), write.source, b"\n")
        return await self._client.perform_request(
            "POST", self._path, params=self._parameters, headers=self._headers, body=b"".join(pieces)
        )

    def _judge(self, part: Sequence[Write], items: list[dict[str, Any]], verdict: Verdict) -> list[Write]:
        """Return the writes for which the engine was too busy."""
        busy = []
        for write, item in zip(part, items, strict=True):
            result = item["index"]
            status = result["status"]
            if status == _CREATED:
                continue
            if status < 300 or status == _CONFLICT:
                verdict.repeated.append(write)
            elif status in _REFUSED:
                verdict.refused.append((write, reason(result)))
            elif status in OVERLOADED and not is_blocked(result):
                busy.append(write)
            else:
                raise self._stopped(status, result)
        return busy

    def _stopped(self, status: int, result: dict[str, Any]) -> EngineError | FencedError:
        if self._is_fenced and status == _MISSING and result["error"]["type"] == "index_not_found_exception":
            return FencedError("Another run has taken over: what this one writes through was taken away from it.")
        return _refusal(status, result)


@dataclass(frozen=True)
class _Outcome:
    """What came of one request: which writes are to be sent again, and after a wait if there is a complaint."""

    again: Sequence[Sequence[Write]] = ()
    complaint: Exception | None = None
    is_overload: bool = False


def _failed(part: Sequence[Write], error: ApiError, verdict: Verdict) -> _Outcome:
    """Judge a request that was refused as a whole: one that is too large is halved, down to the document at fault."""
    status = error.meta.status
    if status in OVERLOADED and not is_blocked(error.body):
        return _Outcome([part], _refusal(status, error.body), is_overload=True)
    if status not in _REFUSED:
        raise _refusal(status, error.body) from error
    if len(part) == 1:
        verdict.refused.append((part[0], reason(error.body)))
        return _Outcome()
    middle = len(part) // 2
    return _Outcome([part[:middle], part[middle:]])


def _refusal(status: int, body: object) -> EngineError:
    if is_blocked(body):
        return EngineError(f"Elasticsearch takes no writes: {reason(body)}. Free disk space or lift the block.")
    return EngineError(f"Elasticsearch answered {status} to a bulk request: {reason(body)}.")
