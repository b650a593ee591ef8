"""The client of the feed: snapshots, changes and digests, with retries and integrity checks."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Self, TypeVar, cast

import msgspec

from consumer.http_client import RETRYABLE, AttemptBackoff, FeedHttpClient, TruncatedResponse, iterate_lines
from consumer.messages import ChangeBatch, DigestResponse, SnapshotHeader, SnapshotRecord, SnapshotTrailer
from consumer.record_hashes import RunningDigest

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from consumer.http_client import OnWait

    Records = AsyncGenerator[SnapshotRecord, None]

Response = TypeVar("Response")


class _DigestMismatch(Exception):
    """The count or digest in the last line of a snapshot does not match its records."""


class Feed:
    """The feed of one key, narrowed by a scope such as `{"platform_company_id": "acme", "market_status": "on-market"}`.

    `on_wait` is called with the seconds and the reason before each retry.
    """

    def __init__(self, url: str, key: str, scope: Mapping[str, str] | None = None, *, attempts: int = 8) -> None:
        """Use the service at `url`; give up after `attempts` failures in a row without progress."""
        self._client, self._scope, self._attempts = FeedHttpClient(url, key), dict(scope or {}), attempts
        self.on_wait: OnWait = lambda seconds, reason: None  # noqa: ARG005 - default

    async def __aenter__(self) -> Self:
        """Open the HTTP session."""
        await self._client.open()
        return self

    async def __aexit__(self, *_details: object) -> None:
        """Close the HTTP session."""
        await self._client.close()

    async def snapshot(self, resource: str, after: str | None = None) -> tuple[SnapshotHeader, Records]:
        """Return the header of a snapshot and its records; `after` is the cursor of the last stored record.

        The records resume by themselves after a broken connection, and end only after a trailer that verifies them.
        Keep the token of the first header, also if a later run resumes with `after`.
        """
        items = self._snapshot(resource, after)
        return cast("SnapshotHeader", await anext(items)), cast("Records", items)

    async def _snapshot(
        self, resource: str, after: str | None
    ) -> AsyncGenerator[SnapshotHeader | SnapshotRecord, None]:
        backoff, start, has_header = AttemptBackoff(self._attempts, self.on_wait), after, False
        while True:
            try:
                async with aclosing(self._read_snapshot(resource, start)) as items:
                    async for item in items:
                        if isinstance(item, SnapshotRecord):
                            after = item.cursor
                        elif has_header:
                            continue
                        has_header = True
                        yield item
            except _DigestMismatch as error:
                await backoff.wait(error)
            except RETRYABLE as error:
                if after != start:
                    backoff.reset()
                await backoff.wait(error)
                start = after
            else:
                return

    async def _read_snapshot(
        self, resource: str, after: str | None
    ) -> AsyncGenerator[SnapshotHeader | SnapshotRecord, None]:
        """Yield the header and the records of one response; raise _DigestMismatch or one of RETRYABLE."""
        digest = RunningDigest()
        async with self._client.get(f"snapshot/{resource}", self._scope | {"after": after or ""}) as response:
            lines = iterate_lines(response)
            yield msgspec.json.decode(await anext(lines, b""), type=SnapshotHeader)
            async for line in lines:
                if (record := _decode_record(line)) is None:
                    trailer = msgspec.json.decode(line, type=SnapshotTrailer)
                    if (trailer.count, trailer.digest) != (digest.count, digest.digest):
                        raise _DigestMismatch(f"snapshot/{resource} does not match the digest in its last line")
                    return
                digest.add(record.id, record.content)
                yield record
        raise TruncatedResponse(f"snapshot/{resource} ended without its last line")

    async def changes(
        self, since: Sequence[str] = (), *, resources: Sequence[str] = (), wait: int = 0, page_size: int = 1000
    ) -> AsyncGenerator[ChangeBatch, None]:
        """Yield pages up to the last published change; wait up to `wait` seconds for the first one.

        `since` are tokens of different resources; `next` of each page covers all of them. Raises TokenExpired.
        """
        common = self._scope | {"page_size": str(page_size)}
        parameters = common | {"since": ",".join(since), "resources": ",".join(resources), "wait": str(wait or "")}
        while True:
            page = await self._get("changes", parameters, ChangeBatch)
            yield page
            if page.at_end:
                return
            parameters = common | {"since": page.next}

    async def digest(self, resource: str, prefixes: Sequence[str] = ()) -> DigestResponse:
        """Return the digest of a resource and of its 256 buckets, or of the buckets below at most 64 prefixes."""
        return await self._get(f"digest/{resource}", self._scope | {"prefixes": ",".join(prefixes)}, DigestResponse)

    async def _get(self, path: str, parameters: Mapping[str, str], kind: type[Response]) -> Response:
        backoff = AttemptBackoff(self._attempts, self.on_wait)
        while True:
            try:
                async with self._client.get(path, parameters) as response:
                    return msgspec.json.decode(await response.read(), type=kind)
            except RETRYABLE as error:
                await backoff.wait(error)


_RECORD = msgspec.json.Decoder(SnapshotRecord)


def _decode_record(line: bytes) -> SnapshotRecord | None:
    """Return the record of a line, None for the trailer, which has no id."""
    try:
        return _RECORD.decode(line)
    except msgspec.ValidationError:
        return None
