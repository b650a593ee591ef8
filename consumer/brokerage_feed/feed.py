"""The client of the feed: snapshots, changes and digests, with retries and integrity checks.

A published file is resumed after the bytes that are there, and verified by its hash.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, suppress
from hashlib import file_digest
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import aiohttp
import msgspec

from brokerage_feed.errors import CopyError, NoProgress
from brokerage_feed.http_client import (
    RETRYABLE,
    AttemptBackoff,
    FeedHttpClient,
    MalformedResponse,
    OnWait,
    TruncatedResponse,
    decode_message,
    iterate_lines,
    read_body,
)
from brokerage_feed.limits import FeedLimits
from brokerage_feed.messages import (
    Change,
    ChangeBatch,
    DigestResponse,
    ListedFile,
    PublishedFiles,
    SnapshotHeader,
    SnapshotRecord,
    SnapshotTrailer,
)
from brokerage_feed.private_files import create_file
from brokerage_feed.record_hashes import RunningDigest

Records = AsyncGenerator[SnapshotRecord, None]

Response = TypeVar("Response")
# Of a long poll, and between two of them, in case the service does not hold them.
_WAIT_SECONDS = 30
_MIN_INTERVAL_SECONDS = 1.0
_HEADER = msgspec.json.Decoder(SnapshotHeader)
_RECORD, _TRAILER = msgspec.json.Decoder(SnapshotRecord), msgspec.json.Decoder(SnapshotTrailer)
_PUBLISHED = msgspec.json.Decoder(PublishedFiles)
_COMPANY_PARAMETERS = frozenset({"platform_company_id", "parent_company_id"})
_CHANGES, _DIGEST = msgspec.json.Decoder(ChangeBatch), msgspec.json.Decoder(DigestResponse)
# Pages without changes in a row: a service ends such a stream with the first or second one.
MAX_EMPTY_PAGES = 1_000
_READ_BYTES = 1 << 20
_log = logging.getLogger("brokerage_feed")


def _log_wait(seconds: float, reason: str) -> None:
    _log.warning("Trying again in %.1f s: %s", seconds, reason)


class _DigestMismatch(Exception):
    """The count or digest in the last line of a snapshot does not match its records."""


class Feed:
    """The feed of one key, narrowed by a scope such as `{"platform_company_id": "acme", "market_status": "on-market"}`.

    `on_wait` is called with the seconds and the reason before each retry; by default it logs a warning. `token` is the
    position after the changes that `follow` has yielded, empty before the first page is read.
    """

    def __init__(  # noqa: PLR0913 - options, all but three by name
        self,
        url: str,
        key: str,
        scope: Mapping[str, str] | None = None,
        *,
        attempts: int = 8,
        allow_http: bool = False,
        limits: FeedLimits | None = None,
    ) -> None:
        """Use the service at `url`; give up after `attempts` failures in a row without progress.

        Raise InvalidServiceUrl, or KeyExposed for plain HTTP to another host unless `allow_http`: it is trusted.
        """
        self.limits = limits or FeedLimits()
        self._client = FeedHttpClient(url, key, allow_http=allow_http, limits=self.limits)
        self._scope, self._attempts = dict(scope or {}), attempts
        self.token = ""
        self.on_wait: OnWait = _log_wait

    async def __aenter__(self) -> Self:
        await self._client.open()
        return self

    async def __aexit__(self, *_details: object) -> None:
        await self._client.close()

    async def snapshot(self, resource: str, after: str | None = None) -> tuple[SnapshotHeader, Records]:
        """Return the header of a snapshot and its records; `after` is the cursor of the last stored record.

        The records resume by themselves after a broken connection, and end only after a trailer that verifies them.
        Keep the token of the first header, also if a later run resumes with `after`.
        """
        items = self._snapshot(resource, after)
        return cast("SnapshotHeader", await anext(items)), cast("Records", items)

    async def records(self, resource: str) -> AsyncGenerator[dict[str, Any], None]:
        """Yield all records of a resource as dictionaries. Iterating the feed then continues with its changes.

        Raises what `snapshot` raises.
        """
        header, items = await self.snapshot(resource)
        async with aclosing(items):
            async for item in items:
                yield item.as_dict()
        self.token = header.token

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
        digest, path = RunningDigest(), f"snapshot/{resource}"
        async with self._client.get(path, self._scope | {"after": after or ""}) as response:
            lines = iterate_lines(response)
            header = decode_message(await anext(lines, b""), _HEADER, path)
            if header.resource != resource:
                raise NoProgress(f"{path} sent a snapshot of {header.resource[:40]!r}.")
            yield header
            async for line in lines:
                item = _decode_line(line, path)
                if isinstance(item, SnapshotTrailer):
                    if (item.count, item.digest) != (digest.count, digest.digest):
                        raise _DigestMismatch(f"{path} does not match the digest in its last line")
                    return
                if digest.count == header.count:
                    raise NoProgress(f"{path} has more than the {header.count:,} records of its first line.")
                digest.add(item.id, item.content)
                yield item
        raise TruncatedResponse(f"{path} ended without its last line")

    async def changes(
        self,
        since: Sequence[str] = (),
        *,
        resources: Sequence[str] = (),
        changed: Sequence[str] = (),
        wait: int = 0,
        page_size: int = 1000,
    ) -> AsyncGenerator[ChangeBatch, None]:
        """Yield pages up to the last published change; wait up to `wait` seconds for the first one.

        `since` are tokens of different resources; `next` of each page covers all of them. With `changed`, the pages
        have only records that are new, removed, or changed in one of these groups of fields, and tokens for the same
        groups. Raises TokenExpired.
        """
        common = self._scope | {"page_size": str(page_size), "changed": ",".join(changed)}
        parameters = common | {"since": ",".join(since), "resources": ",".join(resources), "wait": str(wait or "")}
        progress = _PageProgress({*since})
        while True:
            page = await self._get("changes", parameters, _CHANGES)
            if not page.at_end:
                progress.require(page)
            yield page
            if page.at_end:
                return
            parameters = common | {"since": page.next}

    async def follow_pages(
        self, since: Sequence[str] = (), *, resources: Sequence[str] = (), changed: Sequence[str] = ()
    ) -> AsyncGenerator[ChangeBatch, None]:
        """Yield pages as they are published, without end; `since` as for `changes`. Raises TokenExpired."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            following = self.changes(since, resources=resources, changed=changed, wait=_WAIT_SECONDS)
            async with aclosing(following) as pages:
                async for page in pages:
                    # The token covers the resources.
                    since, resources = [page.next], ()
                    yield page
            await asyncio.sleep(began + _MIN_INTERVAL_SECONDS - clock())

    async def follow(
        self, since: Sequence[str] = (), *, resources: Sequence[str] = (), changed: Sequence[str] = ()
    ) -> AsyncGenerator[Change, None]:
        """Yield changes one by one as they are published, without end. Without tokens, begin with the first.

        After the last change of a page, `token` is the position to continue from. Raises TokenExpired.
        """
        async with aclosing(self.follow_pages(since, resources=resources, changed=changed)) as pages:
            async for page in pages:
                for change in page.changes:
                    yield change
                self.token = page.next

    def __aiter__(self) -> AsyncIterator[Change]:
        return self.follow([self.token] if self.token else ())

    @property
    def is_whole(self) -> bool:
        """Whether the scope has no filter besides companies, as published files have none."""
        return self._scope.keys() <= _COMPANY_PARAMETERS

    async def published(self, resource: str, since: str = "") -> PublishedFiles:
        """Return the published files of one company's resource; raise FeedRequestRejected with 404 if there are none.

        With a token in `since`, they have the files of changes that lead from it to their token. With filters in the
        scope the request is rejected, too. Raise ResponseTooLarge if they are larger than the limits.
        """
        published = await self._get(f"exports/{resource}", self._scope | {"since": since}, _PUBLISHED)
        self.limits.require_total(f"exports/{resource}", published)
        return published

    async def download(self, resource: str, file: ListedFile, path: Path) -> None:
        """Download a published file to `path`, where its first bytes may be from before, and verify its SHA-256.

        Raise NoProgress if the file is not as listed, ResponseTooLarge if it is larger than the limits, and CopyError
        if `path` cannot be written or the disk would become too full.
        """
        url, backoff = f"exports/{resource}/{file.name}", AttemptBackoff(self._attempts, self.on_wait)
        self.limits.require_file(url, file)
        await FileDownload(self._client, file, path, self.limits).run(url, self._scope, backoff)

    async def digest(self, resource: str, prefixes: Sequence[str] = ()) -> DigestResponse:
        """Return the digest of a resource and of its 256 buckets, or of the buckets below at most 64 prefixes."""
        return await self._get(f"digest/{resource}", self._scope | {"prefixes": ",".join(prefixes)}, _DIGEST)

    async def _get(self, path: str, parameters: Mapping[str, str], decoder: msgspec.json.Decoder[Response]) -> Response:
        backoff = AttemptBackoff(self._attempts, self.on_wait)
        while True:
            try:
                async with self._client.get(path, parameters) as response:
                    return decode_message(await read_body(response), decoder, path)
            except RETRYABLE as error:
                await backoff.wait(error)


class _PageProgress:
    """Recognizes a stream of changes that never ends."""

    def __init__(self, tokens: set[str]) -> None:
        self._tokens, self._empty_pages = tokens, 0

    def require(self, page: ChangeBatch) -> None:
        """Raise NoProgress if another page follows, but at an earlier position or after too many empty ones."""
        self._empty_pages = 0 if page.changes else self._empty_pages + 1
        if page.next in self._tokens:
            raise NoProgress("changes returned the same position twice without reaching the end.")
        if self._empty_pages > MAX_EMPTY_PAGES:
            raise NoProgress(f"changes returned {MAX_EMPTY_PAGES:,} pages in a row without a change or an end.")
        self._tokens.add(page.next)


def _decode_line(line: bytes, path: str) -> SnapshotRecord | SnapshotTrailer:
    """Return the record of a line, or the trailer; raise MalformedResponse with the fault of the record."""
    try:
        return decode_message(line, _RECORD, path)
    except MalformedResponse:
        with suppress(MalformedResponse):
            return decode_message(line, _TRAILER, path)
        raise


class FileDownload:
    """The download of one file to a path, which may hold its first bytes."""

    def __init__(self, client: FeedHttpClient, file: ListedFile, path: Path, limits: FeedLimits) -> None:
        self._client, self._file, self._path, self._limits = client, file, path, limits

    async def run(self, url: str, parameters: Mapping[str, str], backoff: AttemptBackoff) -> None:
        """Fetch what is missing; raise CopyError if the disk is full, and NoProgress if the file is never as listed."""
        for _ in range(2):
            await self._fetch(url, parameters, backoff)
            if await asyncio.to_thread(self._has_hash):
                return
            # A part of another file, or a damaged one.
            await asyncio.to_thread(self._path.unlink)
        raise NoProgress(f"{url} does not have the SHA-256 in the list of files.")

    async def _fetch(self, url: str, parameters: Mapping[str, str], backoff: AttemptBackoff) -> None:
        while (present := await asyncio.to_thread(self._present)) < self._file.bytes:
            try:
                await self._append(url, parameters, present)
                if await asyncio.to_thread(self._present) < self._file.bytes:
                    raise TruncatedResponse(f"{url} ended early")
            except RETRYABLE as error:
                if await asyncio.to_thread(self._present) > present:
                    backoff.reset()
                await backoff.wait(error)

    async def _append(self, url: str, parameters: Mapping[str, str], present: int) -> None:
        """Request the bytes after the present ones, or all of them if the service does not know what they are of."""
        headers = {"Range": f"bytes={present}-", "If-Range": f'"{self._file.sha256}"'} if present else {}
        async with self._client.get_file(url, parameters, headers) as response:
            start = present if response.status == HTTPStatus.PARTIAL_CONTENT else 0
            await self._write(response, start)

    async def _write(self, response: aiohttp.ClientResponse, start: int) -> None:
        try:
            with self._path.open("r+b", buffering=0) as out:
                out.seek(start)
                out.truncate()
                room = self._file.bytes - start
                self._limits.require_space(self._path.parent, room, f"The rest of {self._file.name}")
                async for chunk in response.content.iter_chunked(_READ_BYTES):
                    await asyncio.to_thread(out.write, chunk[:room])
                    room -= len(chunk)
                    if room <= 0:
                        return
        except OSError as error:
            if isinstance(error, RETRYABLE):
                raise
            raise CopyError(f"{self._path} cannot be written: {error}.") from error

    def _present(self) -> int:
        """Return how many bytes are there; more than listed are of another file."""
        create_file(self._path)
        size = self._path.stat().st_size
        if size <= self._file.bytes:
            return size
        self._path.write_bytes(b"")
        return 0

    def _has_hash(self) -> bool:
        with self._path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest() == self._file.sha256
