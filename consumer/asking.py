"""One request to the service, and the patience to make it again: `Retry-After`, else a random wait that grows."""

from __future__ import annotations

import random
from asyncio import sleep
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from consumer.answers import Problem
from consumer.errors import Away, Refused, TokenExpired

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    OnWait = Callable[[float, str], None]

_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 60.0
# Longer than changes may be held back. No bound on the whole: a snapshot takes what it takes.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=75)
_PASSING = frozenset({429, 500, 502, 503, 504})


class Busy(Exception):
    """The service asks to come again; `seconds` later where it says when."""

    def __init__(self, sentence: str, seconds: float | None) -> None:
        """Keep the wish."""
        super().__init__(sentence)
        self.seconds = seconds


class Cut(Exception):
    """An answer ended before its end."""


# What another attempt may mend: no connection, one that broke, an answer that is late or cut, a service that is busy.
PASSING = (aiohttp.ClientError, TimeoutError, msgspec.DecodeError, Busy, Cut)


class Patience:
    """How often one thing may fail in a row, and how long is waited before it is tried again."""

    def __init__(self, attempts: int, on_wait: OnWait) -> None:
        """Nothing has failed yet."""
        self._attempts, self._on_wait = attempts, on_wait
        self._failures = 0

    def renew(self) -> None:
        """Take failures so far for nothing: there was progress."""
        self._failures = 0

    async def wait(self, error: Exception) -> None:
        """Wait before the next attempt; raise Away where there were enough."""
        self._failures += 1
        reason = str(error) or type(error).__name__
        if self._failures >= self._attempts:
            raise Away(f"No usable answer in {self._attempts} attempts. The last: {reason}") from error
        seconds = _seconds(error, self._failures)
        self._on_wait(seconds, reason)
        await sleep(seconds)


def _seconds(error: Exception, failures: int) -> float:
    if isinstance(error, Busy) and error.seconds is not None:
        # Who was told the same second does not come back in the same moment.
        return error.seconds + random.random()  # noqa: S311 - no secret
    return random.uniform(0, min(_LONGEST_SECONDS, _FIRST_SECONDS * 2**failures))  # noqa: S311 - no secret


class Asking:
    """The connections to a service and the key, which goes into a header and nowhere else."""

    def __init__(self, url: str, key: str) -> None:
        """Ask under a root such as https://api.example.com/v1; `/v1` may be left out."""
        self._root = url.rstrip("/").removesuffix("/v1") + "/v1/"
        self._key = key
        self._session: aiohttp.ClientSession

    async def open(self) -> None:
        """Be ready to ask. Answers come compressed in whatever this Python can unpack."""
        self._session = aiohttp.ClientSession(headers={"x-api-key": self._key}, timeout=_TIMEOUT)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._session.close()

    @asynccontextmanager
    async def get(self, path: str, parameters: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Make one request; empty parameters are left out. Raises Refused, TokenExpired or one of PASSING.

        A redirection is not followed: it would be given the key.
        """
        given = {name: value for name, value in parameters.items() if value}
        async with self._session.get(self._root + path, params=given, allow_redirects=False) as answer:
            if answer.status != HTTPStatus.OK:
                raise _error(answer, await answer.read())
            yield answer


def _error(answer: aiohttp.ClientResponse, body: bytes) -> Exception:
    sentence = f"{answer.url.path} answered {answer.status}{_said(body)}"
    if answer.status == HTTPStatus.GONE:
        return TokenExpired(sentence)
    if answer.status not in _PASSING:
        return Refused(answer.status, sentence)
    told = answer.headers.get("Retry-After", "")
    return Busy(sentence, float(told) if told.isdecimal() else None)


def _said(body: bytes) -> str:
    try:
        problem = msgspec.json.decode(body, type=Problem)
    except msgspec.DecodeError:
        return ". Is this the address of the service?"
    return f" {problem.code}: {problem.detail}"


async def lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of a streamed answer, however long. What no line break ends was cut, and is left out."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line
