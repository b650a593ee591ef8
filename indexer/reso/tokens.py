"""What lets us in: a bearer token that is given, or one that client credentials are exchanged for."""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from indexer.errors import SourceError
from indexer.reso.answers import Passing, retry_after

if TYPE_CHECKING:
    import aiohttp

    from indexer.reso.rate import Rate
    from indexer.reso.settings import ResoSettings

# A token is not used in its last seconds: a request takes time.
_MARGIN_SECONDS = 30.0
# So many new tokens in a row may be refused.
_GRANTS = 3


class _Granted(msgspec.Struct):
    access_token: str
    expires_in: float = 3600.0


_granted = msgspec.json.Decoder(_Granted, strict=False).decode


class Tokens:
    """Gives the token to ask with; empty where the source is open."""

    def __init__(self, settings: ResoSettings) -> None:
        """Raise SourceError for settings that say two things or half of one."""
        if settings.token and settings.token_url:
            raise SourceError("Give BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_TOKEN_URL, not both.")
        if settings.token_url and not (settings.client_id and settings.client_secret):
            raise SourceError(
                "BROKERAGE_RESO_TOKEN_URL needs BROKERAGE_RESO_CLIENT_ID and BROKERAGE_RESO_CLIENT_SECRET."
            )
        self._settings = settings
        self._token, self._until = settings.token.strip(), float("inf")
        if settings.token_url:
            self._until = 0.0
        self._unproven = 0  # tokens in a row that were not good for anything yet
        self._one = asyncio.Lock()

    async def token(self, session: aiohttp.ClientSession, rate: Rate) -> str:
        """Return a token that holds for now; raise SourceError where none is given, or aiohttp's errors."""
        async with self._one:
            if time.monotonic() >= self._until:
                await rate.turn()
                await self._grant(session)
            return self._token

    def refused(self, token: str) -> bool:
        """Take note that a token was refused; return whether another can be had."""
        if token == self._token and self._settings.token_url:
            self._until = 0.0
        return bool(self._settings.token_url) and self._unproven <= _GRANTS

    def prove(self) -> None:
        """Take note that a token was good."""
        self._unproven = 0

    async def _grant(self, session: aiohttp.ClientSession) -> None:
        given = self._settings
        form = {
            "grant_type": "client_credentials",
            "client_id": given.client_id,
            "client_secret": given.client_secret,
            **({"scope": given.scope} if given.scope else {}),
        }
        asked, self._unproven = time.monotonic(), self._unproven + 1
        async with session.post(given.token_url, data=form, allow_redirects=False) as answer:
            body = await answer.read()
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.TOO_MANY_REQUESTS:
            seconds = retry_after(answer.headers.get("Retry-After", ""))
            raise Passing(f"{given.token_url} answered {answer.status}.", seconds)
        try:
            granted = _granted(body)
        except msgspec.DecodeError:
            raise SourceError(
                f"{given.token_url} answered {answer.status} and gave no token: check BROKERAGE_RESO_CLIENT_ID, "
                "BROKERAGE_RESO_CLIENT_SECRET and BROKERAGE_RESO_SCOPE."
            ) from None
        self._token, self._until = granted.access_token, asked + granted.expires_in - _MARGIN_SECONDS
