"""What a source answers: pages of records, or why there is none, and when to ask again."""

from __future__ import annotations

import email.utils
import random
import re
import time
from typing import Any

import msgspec

_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 60.0
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class Refused(Exception):
    """The source does not answer a question, whatever is done."""

    def __init__(self, status: int, sentence: str) -> None:
        """Keep the status."""
        super().__init__(sentence)
        self.status = status


class Passing(Exception):
    """An answer that another attempt may mend; `seconds` later where the source says when."""

    def __init__(self, sentence: str, seconds: float | None = None) -> None:
        """Keep the wish."""
        super().__init__(sentence)
        self.seconds = seconds


class Collection(msgspec.Struct):
    """A page of records."""

    value: list[dict[str, Any]]
    count: int | None = msgspec.field(default=None, name="@odata.count")
    next_link: str | None = msgspec.field(default=None, name="@odata.nextLink")


_collection = msgspec.json.Decoder(Collection).decode
_record = msgspec.json.Decoder(dict[str, Any]).decode
# Escapes of JSON; the group is half of a character without its other half, as texts have that were cut.
_ESCAPE = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")


def read_collection(body: bytes) -> Collection:
    """Return a page of records; raise DecodeError or UnicodeDecodeError for anything else."""
    return _collection(_mended(body))


def read_record(body: bytes) -> dict[str, Any]:
    """Return a record; raise DecodeError or UnicodeDecodeError for anything else."""
    return _record(_mended(body))


def _mended(body: bytes) -> bytes:
    """Replace halves of characters: one of them would make the whole page unreadable."""
    if b"\\ud" not in body and b"\\uD" not in body:
        return body
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], body)


def seconds_to_wait(error: Exception, failures: int) -> float:
    """Return how long to wait after so many failures in a row: what the source says, else at random and growing."""
    told = error.seconds if isinstance(error, Passing) else None
    grown: float = random.uniform(0, min(_LONGEST_SECONDS, _FIRST_SECONDS * 2.0 ** min(failures, 10)))  # noqa: S311
    if told is None:
        return grown
    # A token that is refused again and again, or a source that says 0, is not asked without end.
    return told + (grown if failures > 1 or told else 0.0)


def retry_after(text: str) -> float | None:
    """Return the seconds to wait, told as such or as a time; at most an hour."""
    if text.isdecimal():
        return min(float(text), 3600.0)
    told = http_date(text)
    return None if told is None else min(max(told - time.time(), 0.0), 3600.0)


def http_date(text: str) -> float | None:
    """Return a time as HTTP spells it in seconds since 1970, None for anything else."""
    try:
        return email.utils.parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def said(body: bytes) -> str:
    """Return what an OData error says, shortened."""
    try:
        told = msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return ""
    text = told.get("value") if isinstance(told, dict) else told
    return f": {text}"[:300] if isinstance(text, str) else ""
