"""Access tokens for the source: a configured bearer token, or one requested with OAuth."""

import asyncio
import re
import time
from http import HTTPStatus
from typing import Annotated

import aiohttp
import msgspec

from cluster.plain_http import is_exposed
from indexer.errors import SourceError
from indexer.reso.client.odata_response import TransientSourceError, parse_retry_after
from indexer.reso.client.rate_limiter import SourceRateLimiter
from indexer.reso.client.response_body import read_small_body
from indexer.reso.client.token_grants import RefreshTokenStore, TokenGrants, check_settings
from indexer.reso.settings import ResoSettings

# Tokens are renewed this long before they expire, because a request takes time.
_MARGIN_SECONDS = 30.0
# New tokens that may be rejected in a row before the run fails.
_MAX_UNPROVEN_TOKENS = 3


_BEARER_PATTERN = r"\A[!-~]{1,16384}\Z"
_LONGEST_SECONDS = 10 * 365 * 86_400


class _TokenResponse(msgspec.Struct):
    # As in the header that it is sent in (RFC 6750, section 2.1).
    access_token: Annotated[str, msgspec.Meta(pattern=_BEARER_PATTERN)]
    expires_in: Annotated[float, msgspec.Meta(ge=0, le=_LONGEST_SECONDS)] = 3600.0
    refresh_token: str | None = None


_decode_token = msgspec.json.Decoder(_TokenResponse, strict=False).decode


def exposed_message(address: str, secret: str) -> str:
    """Return the refusal of an address that a secret would be sent to unencrypted."""
    return (
        f"{address} begins with http://, so {secret} would cross the network unencrypted: use https://, or set "
        "BROKERAGE_RESO_ALLOW_HTTP=true if you trust the network."
    )


class AccessTokenProvider:
    """The current access token; empty for a source without authentication."""

    def __init__(self, settings: ResoSettings, store: RefreshTokenStore | None = None) -> None:
        """Raise SourceError for contradictory or incomplete settings."""
        check_settings(settings)
        if is_exposed(settings.token_url) and not settings.allow_http:
            raise SourceError(exposed_message("BROKERAGE_RESO_TOKEN_URL", "BROKERAGE_RESO_CLIENT_SECRET"))
        self._settings = settings
        self._grants = TokenGrants(settings, store)
        self._token = settings.token.strip()
        if self._token and not re.fullmatch(_BEARER_PATTERN, self._token):
            raise SourceError("BROKERAGE_RESO_TOKEN cannot be used: it has spaces, control or non-ASCII characters.")
        self._valid_until = 0.0 if settings.token_url else float("inf")  # on the monotonic clock
        self._unproven = 0  # tokens issued since the last successful request
        self._lock = asyncio.Lock()

    async def token(self, session: aiohttp.ClientSession, rate_limiter: SourceRateLimiter) -> str:
        """Return a valid token; raise SourceError if none is issued, or aiohttp's errors."""
        async with self._lock:
            if time.monotonic() >= self._valid_until:
                await self._request_token(session, rate_limiter)
            return self._token

    def reject(self, token: str) -> bool:
        """Discard a rejected token; return whether another can be requested."""
        if token == self._token and self._settings.token_url:
            self._valid_until = 0.0
        return bool(self._settings.token_url) and self._unproven <= _MAX_UNPROVEN_TOKENS

    def confirm(self) -> None:
        """Record that the current token was accepted."""
        self._unproven = 0

    async def _request_token(self, session: aiohttp.ClientSession, rate_limiter: SourceRateLimiter) -> None:
        requested_at, self._unproven = time.monotonic(), self._unproven + 1
        while (issued := await self._fetch_token(session, rate_limiter)) is None:
            requested_at = time.monotonic()
        self._grants.renew(issued.refresh_token)
        self._token = issued.access_token
        self._valid_until = requested_at + issued.expires_in - _MARGIN_SECONDS

    async def _fetch_token(
        self, session: aiohttp.ClientSession, rate_limiter: SourceRateLimiter
    ) -> _TokenResponse | None:
        """Return the response to the next grant, None if it was refused and there is another one."""
        url, names = self._settings.token_url, self._grants.names
        async with (
            rate_limiter.request() as sent,
            session.post(url, data=self._grants.form, allow_redirects=False) as response,
        ):
            body = await read_small_body(response)
            sent.received = len(body)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status == HTTPStatus.TOO_MANY_REQUESTS:
            seconds = parse_retry_after(response.headers.get("Retry-After", ""))
            raise TransientSourceError(f"{url} returned {response.status}.", seconds)
        try:
            return _decode_token(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            if self._grants.drop_refused():
                return None
            raise SourceError(f"{url} returned {response.status} without a token. Check {names}.") from None
