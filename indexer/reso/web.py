"""Requests to a RESO Web API: within a rate, with patience, and with suspicion of what comes back."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from yarl import URL

from indexer.errors import SourceError
from indexer.reso.answers import (
    PASSING,
    Collection,
    Passing,
    Refused,
    http_date,
    read_collection,
    read_record,
    retry_after,
    said,
    seconds_to_wait,
)
from indexer.reso.odata import literal
from indexer.reso.rate import Rate
from indexer.reso.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from indexer.reso.odata import Question
    from indexer.reso.settings import ResoSettings

Answer = TypeVar("Answer")

_LEAST_PAGE = 50
# Seconds for the first question of a run: an address that is misspelt is told while somebody looks.
_FIRST_PATIENCE = 20.0


@dataclass
class Traffic:
    """What was asked for, by entity."""

    requests: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)  # bytes of bodies, unpacked


@dataclass(frozen=True)
class _Request:
    entity: str
    url: str
    accept: str = "application/json"
    page: int | None = None
    patience: float = float("inf")  # seconds


class Web:
    """The connection to one source."""

    def __init__(self, root: str, settings: ResoSettings, on_wait: Callable[[str], None]) -> None:
        """Ask under a root such as https://mls.example.com/reso/odata."""
        self._root = root.rstrip("/")
        self._settings = settings
        self._tokens = Tokens(settings)
        self._rate = Rate(settings.rate)
        self._places = asyncio.Semaphore(settings.in_flight)
        self._on_wait = on_wait
        self._page = settings.page_size
        self._offset = 0.0  # seconds by which the source's clock is ahead
        self.traffic = Traffic()
        self._session: aiohttp.ClientSession

    async def open(self) -> None:
        """Be ready to ask."""
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds))

    async def close(self) -> None:
        """Let go of the connections."""
        await self._session.close()

    @property
    def now(self) -> dt.datetime:
        """The time by the source's clock, as its last answer told it."""
        return dt.datetime.fromtimestamp(time.time() + self._offset, dt.UTC)

    async def ask(self, question: Question) -> Collection:
        """Return a page of records; raise Refused or SourceError."""
        url = f"{self._root}/{question.entity}?{question.query}"
        return await self._patiently(_Request(question.entity, url, page=question.page), read_collection)

    async def one(self, entity: str, key: str, select: Sequence[str]) -> dict[str, Any] | None:
        """Return a record by its key, None where the source says that there is none."""
        url = f"{self._root}/{entity}({quote(literal(key), safe='')})?$select={','.join(select)}"
        try:
            return await self._patiently(_Request(entity, url), read_record)
        except Refused as refused:
            if refused.status in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
                return None
            raise

    async def metadata(self, read: Callable[[bytes], Answer]) -> Answer:
        """Return what is read from the source's description of itself, XML; raise SourceError."""
        request = _Request("$metadata", f"{self._root}/$metadata", "application/xml", patience=_FIRST_PATIENCE)
        try:
            return await self._patiently(request, read)
        except Refused as refused:
            raise SourceError(f"{refused} Is {self._root} the root of a RESO Web API?") from None

    async def _patiently(self, request: _Request, read: Callable[[bytes], Answer]) -> Answer:
        """Ask until there is an answer, for as long as the settings have patience."""
        until, failures = time.monotonic() + min(self._settings.patience_seconds, request.patience), 0
        while True:
            try:
                return read(await self._once(request))
            except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
                raise SourceError(f"{self._root} is no address that can be asked.") from None
            except (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, UnicodeDecodeError, Passing) as error:
                failures += 1
                await self._wait(request.entity, error, failures, until)

    async def _wait(self, entity: str, error: Exception, failures: int, until: float) -> None:
        """Wait before the next attempt; raise SourceError where that would be too late."""
        if isinstance(error, TimeoutError):
            self._page = max(_LEAST_PAGE, self._page // 2)
        seconds, reason = seconds_to_wait(error, failures), str(error) or type(error).__name__
        if time.monotonic() + seconds > until:
            raise SourceError(f"{entity}: no usable answer from the source. The last: {reason}") from error
        self._on_wait(f"{entity}: {reason} Asked again in {seconds:.0f} s.")
        await asyncio.sleep(seconds)

    async def _once(self, request: _Request) -> bytes:
        async with self._places:
            token = await self._tokens.token(self._session, self._rate)
            await self._rate.turn()
            headers = {"Accept": request.accept, **({"Authorization": f"Bearer {token}"} if token else {})}
            if request.page is not None:
                headers["Prefer"] = f"odata.maxpagesize={min(request.page, self._page)}"
            self.traffic.requests[request.entity] += 1
            url = URL(request.url, encoded=True)
            async with self._session.get(url, headers=headers, allow_redirects=False) as answer:
                body = await answer.read()
        self.traffic.received[request.entity] += len(body)
        self._note_time(answer)
        if answer.status != HTTPStatus.OK:
            raise self._error(answer, request.entity, body, token)
        self._tokens.prove()
        return body

    def _note_time(self, answer: aiohttp.ClientResponse) -> None:
        told = http_date(answer.headers.get("Date", ""))
        if told is not None:
            self._offset = told - time.time()

    def _error(self, answer: aiohttp.ClientResponse, entity: str, body: bytes, token: str) -> Exception:
        sentence = f"{entity} answered {answer.status}{said(body)}."
        if answer.status == HTTPStatus.UNAUTHORIZED:
            if self._tokens.refused(token):
                return Passing(sentence, 0.0)
            return SourceError(f"{sentence} Check BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_CLIENT_SECRET.")
        if answer.status not in PASSING:
            return Refused(answer.status, sentence)
        seconds = retry_after(answer.headers.get("Retry-After", ""))
        if seconds is not None:
            self._rate.hold(seconds)
        return Passing(sentence, seconds)
