"""The HTTP client of a RESO Web API, with rate limit, retries and token renewal."""

import asyncio
import datetime as dt
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, NamedTuple, TypeVar
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from cluster.http.headers import parse_http_date, parse_retry_after
from cluster.tls import is_exposed
from indexer.errors import SourceError
from indexer.reso.client.access_tokens import AccessTokenProvider, exposed_message
from indexer.reso.client.limits import RequestWindows, SourceRateLimiter
from indexer.reso.client.odata import (
    MAX_LINK_LENGTH,
    RETRYABLE_STATUSES,
    ODataPage,
    ODataQuery,
    SourceRejectedError,
    TransientSourceError,
    decode_page,
    decode_record,
    error_detail,
    header_next_links,
    read_body,
    read_small_body,
    retry_delay_seconds,
)
from indexer.reso.mirror import Mirror, RefreshTokens, RequestCounts
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import BY_PREFER, BY_TOP, Dialect

Decoded = TypeVar("Decoded")

_ANY_DIALECT = Dialect(size_by=(BY_PREFER,))
_MIN_PAGE_SIZE = 50
# The retry limit of the first request of a run, short so that a wrong URL fails while the operator is watching.
_FIRST_REQUEST_SECONDS = 20.0
_MAX_CLOCK_OFFSET_SECONDS = 7 * 86_400.0
# The pause of all requests after a 429 that does not say how long to wait.
_TOO_MANY_SECONDS = 5.0


@dataclass
class SourceTraffic:
    """Requests and bytes, by entity."""

    requests: Counter[str] = field(default_factory=Counter)
    received: Counter[str] = field(default_factory=Counter)  # bytes of bodies, decompressed


@dataclass(frozen=True)
class _Request:
    entity: str
    url: str
    accept: str = "application/json"
    page_size: int | None = None
    has_top: bool = False  # the page size is requested with $top, too
    retry_seconds: float = float("inf")


class _Response(NamedTuple):
    body: bytes
    next_links: list[str]  # of the headers


class ResoClient:
    """A client of one source."""

    def __init__(
        self,
        root: str,
        settings: ResoSettings,
        on_wait: Callable[[str], None],
        dialect: Dialect = _ANY_DIALECT,
        mirror: Mirror | None = None,
    ) -> None:
        """Take the service root, such as https://mls.example.com/reso/odata.

        Request counts and the refresh token are kept in the mirror, without one only in memory.
        Raise SourceError for contradictory settings, or if a token would be sent to another host unencrypted.
        """
        has_token = bool(settings.token or settings.token_url)
        if has_token and is_exposed(root) and not settings.allow_http:
            raise SourceError(exposed_message("URL", "the access token"))
        self.root = root.rstrip("/")
        self._settings = settings
        self._tokens = AccessTokenProvider(settings, RefreshTokens(mirror) if mirror else None)
        windows = list(dialect.limits.overridden(settings).windows())
        counts = RequestCounts(mirror) if mirror else None
        self._rate_limiter = SourceRateLimiter(settings.rate, RequestWindows(windows, counts), on_wait)
        rates = [window.requests / window.seconds for window in windows if window.requests]
        self.requests_per_second = min([settings.rate, *rates])  # in the long run
        self._slots = asyncio.Semaphore(settings.in_flight)
        self._on_wait = on_wait
        self._size_by = set[str](dialect.size_by)
        self._page_size = settings.page_size
        self._clock_offset = 0.0  # seconds that the source's clock is ahead
        self.traffic = SourceTraffic()
        self._session: aiohttp.ClientSession

    async def open(self) -> None:
        """Open the HTTP session."""
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds), max_field_size=MAX_LINK_LENGTH
        )

    async def close(self) -> None:
        """Close the HTTP session."""
        await self._session.close()

    @property
    def source_time(self) -> dt.datetime:
        """The time on the source's clock, from the Date header of its last response."""
        return dt.datetime.fromtimestamp(time.time() + self._clock_offset, dt.UTC)

    async def fetch_page(self, query: ODataQuery, *, has_next_links: bool = False) -> ODataPage:
        """Return a page of records; raise SourceRejectedError or SourceError.

        With `has_next_links`, `$top` requests the page size only where `Prefer` cannot: OData defines `$top` as the
        total number of records to return, so a source may end the result there, without a next link.
        """
        url = f"{self.root}/{query.entity}{query.path}?{query.query_string}"
        has_top = query.page_size is not None and query.top is None and BY_TOP in self._size_by
        has_top = has_top and not (has_next_links and BY_PREFER in self._size_by)
        request = _Request(query.entity, url, page_size=query.page_size, has_top=has_top)
        try:
            return await self._page(request)
        except SourceRejectedError as error:
            if not (has_top and error.status == HTTPStatus.BAD_REQUEST and BY_PREFER in self._size_by):
                raise
        page = await self._page(replace(request, has_top=False))
        self._size_by.discard(BY_TOP)  # the source accepts the request without it
        return page

    async def fetch_link(self, entity: str, link: str, page_size: int | None = None) -> ODataPage:
        """Return the page of a next link; raise SourceRejectedError, or SourceError for a link to another host."""
        return await self._page(_Request(entity, self._address(entity, link), page_size=page_size))

    async def _page(self, request: _Request) -> ODataPage:
        """Return a page with its next link, from the body or from headers; raise SourceError if they differ."""

        def decode(response: _Response) -> ODataPage:
            page = decode_page(response.body)
            links = [*filter(None, [page.next_link]), *response.next_links]
            paths = [self._resolved(request.entity, link)._replace(scheme="", netloc="") for link in links]
            if len({URL(path.geturl()) for path in paths}) > 1:
                raise SourceError(
                    f"{request.entity}: the source sends different next links in the body and in headers of one page, "
                    "so it is unknown which records follow. Ask the provider."
                )
            page.next_link = links[0] if links else None
            return page

        return await self._with_retries(request, decode)

    def _address(self, entity: str, link: str) -> str:
        """Return the address of a next link at the source's own scheme and port; raise SourceError for other hosts."""
        root, given = urlsplit(self.root), self._resolved(entity, link)
        if given.hostname != root.hostname:
            raise SourceError(f"{entity}: the source sends a next link to another host: {given.hostname}.")
        return given._replace(scheme=root.scheme, netloc=root.netloc).geturl()

    def _resolved(self, entity: str, link: str) -> SplitResult:
        try:
            return urlsplit(urljoin(f"{self.root}/", link))
        except ValueError as error:
            raise SourceError(f"{entity}: the source sends a next link that is not a URL: {error}.") from None

    async def fetch_record(self, query: ODataQuery, key: str) -> dict[str, Any] | None:
        """Return a record by the literal of its key, None if the source has no such record."""
        url = f"{self.root}/{query.entity}({quote(key, safe='')})?{query.query_string}"
        try:
            return await self._with_retries(_Request(query.entity, url), lambda response: decode_record(response.body))
        except SourceRejectedError as error:
            if error.status in {HTTPStatus.NOT_FOUND, HTTPStatus.GONE}:
                return None
            raise

    async def fetch_metadata(self, decode: Callable[[bytes], Decoded]) -> Decoded:
        """Return the decoded `$metadata` document (XML); raise SourceError."""
        request = _Request(
            "$metadata", f"{self.root}/$metadata", "application/xml", retry_seconds=_FIRST_REQUEST_SECONDS
        )
        try:
            return await self._with_retries(request, lambda response: decode(response.body))
        except SourceRejectedError as error:
            raise SourceError(f"{error} Is {self.root} the root of a RESO Web API?") from None

    async def _with_retries(self, request: _Request, decode: Callable[[_Response], Decoded]) -> Decoded:
        """Send a request until a response decodes, within the retry limit of the settings."""
        deadline, failures = self._patience_clock() + min(self._settings.retry_seconds, request.retry_seconds), 0
        while True:
            try:
                return decode(await self._send(request))
            except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError):
                raise SourceError(f"{self.root} is not a valid HTTP URL.") from None
            except (
                aiohttp.ClientError,
                TimeoutError,
                msgspec.DecodeError,
                UnicodeDecodeError,
                TransientSourceError,
            ) as error:
                failures += 1
                await self._wait(request, error, failures, deadline)
            except RecursionError:
                raise SourceError(f"{request.entity}: a response of the source is nested too deeply.") from None

    def _patience_clock(self) -> float:
        """Return the time of a clock that stops while a limit of the source holds requests back."""
        return time.monotonic() - self._rate_limiter.held_seconds

    async def _wait(self, request: _Request, error: Exception, failures: int, deadline: float) -> None:
        """Wait before a retry; raise SourceError if it would be after the deadline."""
        if isinstance(error, TimeoutError):
            self._page_size = max(_MIN_PAGE_SIZE, self._page_size // 2)
        # Addresses are shown without their query, which can have a token.
        path, seconds = urlsplit(request.url).path, retry_delay_seconds(error, failures)
        text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
        reason = f"{(text or type(error).__name__).rstrip('.')}."
        remaining = deadline - self._patience_clock()
        if seconds > remaining:
            raise SourceError(
                f"{request.entity}: no usable response from the source. Last error: {reason} {failures} requests for "
                f"{path} failed; BROKERAGE_RESO_PATIENCE_SECONDS is how long they are repeated."
            ) from error
        self._on_wait(
            f"{request.entity}: {reason} Request {failures} for {path} failed, the next is sent in {seconds:.0f} s; "
            f"after {remaining:.0f} s the run ends."
        )
        await asyncio.sleep(seconds)

    async def _send(self, request: _Request) -> _Response:
        async with self._slots:
            token = await self._tokens.token(self._session, self._rate_limiter)
            headers = {"Accept": request.accept, **({"Authorization": f"Bearer {token}"} if token else {})}
            size = None if request.page_size is None else min(request.page_size, self._page_size)
            if size is not None and BY_PREFER in self._size_by:
                headers["Prefer"] = f"odata.maxpagesize={size}"
            url = URL(f"{request.url}&$top={size}" if request.has_top else request.url, encoded=True)
            async with self._rate_limiter.request() as sent:
                self.traffic.requests[request.entity] += 1
                async with self._session.get(url, headers=headers, allow_redirects=False) as response:
                    is_ok = response.status == HTTPStatus.OK
                    read = read_body(response, self._settings.max_body_mib) if is_ok else read_small_body(response)
                    body = await read
                sent.received = len(body)
        self.traffic.received[request.entity] += len(body)
        self._record_clock_offset(response)
        if not is_ok:
            raise self._error(response, request.entity, body, token)
        self._tokens.confirm()
        return _Response(body, header_next_links(response.headers))

    def _record_clock_offset(self, response: aiohttp.ClientResponse) -> None:
        date = parse_http_date(response.headers.get("Date", ""))
        # A clock that is further off is broken, and its year may be beyond those of a timestamp.
        if date is not None and abs(date - time.time()) < _MAX_CLOCK_OFFSET_SECONDS:
            self._clock_offset = date - time.time()

    def _error(self, response: aiohttp.ClientResponse, entity: str, body: bytes, token: str) -> Exception:
        message = f"{entity} returned {response.status}{error_detail(body)}."
        if response.status == HTTPStatus.UNAUTHORIZED:
            if self._tokens.reject(token):
                return TransientSourceError(message, 0.0)
            return SourceError(f"{message} Check BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_CLIENT_SECRET.")
        if response.status not in RETRYABLE_STATUSES:
            return SourceRejectedError(response.status, message)
        seconds = parse_retry_after(response.headers.get("Retry-After", ""))
        if seconds is None and response.status == HTTPStatus.TOO_MANY_REQUESTS:
            seconds = _TOO_MANY_SECONDS
        if seconds is not None:
            self._rate_limiter.pause(seconds)
        return TransientSourceError(message, seconds)
