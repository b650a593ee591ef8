"""Responses of a source: decoding pages and records, errors, and retry delays."""

import email.utils
import random
import re
import time
from typing import Any

import msgspec

_INITIAL_DELAY_SECONDS, _MAX_DELAY_SECONDS = 0.5, 60.0
_MAX_RETRY_AFTER_SECONDS = 3600.0
RETRYABLE_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})


class SourceRejectedError(Exception):
    """The source rejected a request; a retry would not help."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the HTTP status."""
        super().__init__(message)
        self.status = status


class TransientSourceError(Exception):
    """A response that is worth a retry, after `retry_after_seconds` if the source says so."""

    def __init__(self, message: str, retry_after_seconds: float | None = None) -> None:
        """Keep the delay that the source requested."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ODataPage(msgspec.Struct):
    """A page of records."""

    value: list[dict[str, Any]]
    count: int | None = msgspec.field(default=None, name="@odata.count")
    next_link: str | None = msgspec.field(default=None, name="@odata.nextLink")


_decode_page = msgspec.json.Decoder(ODataPage).decode
_decode_record = msgspec.json.Decoder(dict[str, Any]).decode
# JSON escapes; the group is a lone surrogate, as found in truncated texts.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")


def decode_page(body: bytes) -> ODataPage:
    """Return a page of records; raise DecodeError or UnicodeDecodeError for anything else."""
    return _decode_page(_replace_lone_surrogates(body))


def decode_record(body: bytes) -> dict[str, Any]:
    """Return a record; raise DecodeError or UnicodeDecodeError for anything else."""
    return _decode_record(_replace_lone_surrogates(body))


def _replace_lone_surrogates(body: bytes) -> bytes:
    """Replace escaped lone surrogates: a single one would make the whole page undecodable."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], body)


def retry_delay_seconds(error: Exception, failures: int) -> float:
    """Return the delay before a retry: what the source requests, or exponential backoff with full jitter."""
    requested = error.retry_after_seconds if isinstance(error, TransientSourceError) else None
    ceiling = min(_MAX_DELAY_SECONDS, _INITIAL_DELAY_SECONDS * 2.0 ** min(failures, 10))
    backoff: float = random.uniform(0, ceiling)  # noqa: S311
    if requested is None:
        return backoff
    # Without the backoff, a token that is always rejected or a Retry-After of 0 would cause a tight loop.
    return requested + (backoff if failures > 1 or requested else 0.0)


def parse_retry_after(text: str) -> float | None:
    """Return the seconds of a Retry-After header, given as seconds or as a date; at most an hour."""
    if text.isascii() and text.isdecimal():
        return min(float(text), _MAX_RETRY_AFTER_SECONDS)
    date = parse_http_date(text)
    return None if date is None else min(max(date - time.time(), 0.0), _MAX_RETRY_AFTER_SECONDS)


def parse_http_date(text: str) -> float | None:
    """Return an HTTP date in seconds since 1970, None for anything else."""
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError, TypeError, IndexError):
        return None


def error_detail(body: bytes) -> str:
    """Return the message of an OData error, truncated, with a leading colon; empty for any other body."""
    try:
        message = msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError, TypeError):
        return ""
    text = message.get("value") if isinstance(message, dict) else message
    return f": {text}"[:300] if isinstance(text, str) else ""
