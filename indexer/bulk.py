"""Bulk requests as raw bytes, with their own retries and a verdict on every document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from elasticsearch import ApiError

from indexer.errors import EngineError, reason
from indexer.retry import Patience, is_blocked, patiently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from elasticsearch import AsyncElasticsearch

    from indexer.documents import Draft

_HEADERS = {
    "accept": "application/vnd.elasticsearch+json; compatible-with=9",
    "content-type": "application/vnd.elasticsearch+x-ndjson; compatible-with=9",
}
# The answer then holds a few bytes per document, so that reading it costs next to nothing.
_PARAMETERS = {"filter_path": "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by"}
_CREATED = 201
_CONFLICT = 409
_REFUSED = frozenset({400, 413})
_BUSY = frozenset({429, 503})


class Operation(NamedTuple):
    """One document on its way: the draft it comes from, and its two lines of the request."""

    draft: Draft
    body: bytes


def operation(draft: Draft, clock: int, sequence: int) -> Operation:
    """Return the operation that writes a draft under its external version."""
    head = b'{"index":{"_id":%b,"version":%d,"version_type":"external"}}\n' % (orjson.dumps(draft.id), draft.version)
    return Operation(draft, b"".join((head, draft.source(clock, sequence), b"\n")))


@dataclass
class Verdict:
    """What the engine made of a chunk.

    `repeated` are identifiers that were there before: repeated in the source, or sent twice since an answer was lost.
    """

    repeated: list[str] = field(default_factory=list)
    refused: list[tuple[Draft, str]] = field(default_factory=list)
    busy: list[Operation] = field(default_factory=list)


@dataclass(frozen=True)
class Sender:
    """Sends chunks into one index, as often as it takes within `retry_seconds`."""

    client: AsyncElasticsearch
    index: str
    retry_seconds: float

    async def send(self, chunk: Sequence[Operation]) -> Verdict:
        """Write a chunk; raise EngineError when the index is blocked or the engine stays away."""
        verdict, patience = Verdict(busy=list(chunk)), Patience(self.retry_seconds)
        while True:
            pending, verdict.busy = verdict.busy, []
            await self._post(pending, verdict)
            if not verdict.busy:
                return verdict
            if not await patience.wait():
                raise EngineError(f"Elasticsearch has refused documents as overloaded for {self.retry_seconds:g} s.")

    async def _post(self, chunk: Sequence[Operation], verdict: Verdict) -> None:
        body = b"".join(operation.body for operation in chunk)
        try:
            answer = await patiently(lambda: self._request(body), self.retry_seconds)
        except ApiError as error:
            await self._divide(chunk, verdict, error)
        else:
            _judge(chunk, answer["items"], verdict)

    async def _request(self, body: bytes) -> Any:
        path = f"/{self.index}/_bulk"
        return await self.client.perform_request("POST", path, params=_PARAMETERS, headers=_HEADERS, body=body)

    async def _divide(self, chunk: Sequence[Operation], verdict: Verdict, error: ApiError) -> None:
        """Send a request that is too large in halves, down to the one document that is at fault."""
        if error.meta.status not in _REFUSED:
            raise _stopped(error.meta.status, error.body) from error
        if len(chunk) == 1:
            verdict.refused.append((chunk[0].draft, reason(error.body)))
            return
        middle = len(chunk) // 2
        await self._post(chunk[:middle], verdict)
        await self._post(chunk[middle:], verdict)


def _judge(chunk: Sequence[Operation], items: list[dict[str, Any]], verdict: Verdict) -> None:
    for sent, item in zip(chunk, items, strict=True):
        status = item["index"]["status"]
        if status == _CREATED:
            continue
        if status < 300 or status == _CONFLICT:
            verdict.repeated.append(sent.draft.id)
        elif status in _REFUSED:
            verdict.refused.append((sent.draft, reason(item["index"])))
        elif status in _BUSY and not is_blocked(item["index"]):
            verdict.busy.append(sent)
        else:
            raise _stopped(status, item["index"])


def _stopped(status: int, body: object) -> EngineError:
    if is_blocked(body):
        return EngineError(f"Elasticsearch takes no writes: {reason(body)}. Free disk space or lift the block.")
    return EngineError(f"Elasticsearch answered {status} to a bulk request: {reason(body)}.")
