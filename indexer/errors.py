"""What can stop an indexer run, each with the exit code of the command and one sentence for the operator."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson
from elasticsearch import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterator


class IndexerError(Exception):
    """A run cannot go on; the text is a sentence for people."""

    exit_code = 1


class RefusedError(IndexerError):
    """What was asked for is not done since it would harm what is served."""


class SourceError(IndexerError):
    """The source cannot be read as one."""

    exit_code = 2


class EngineError(IndexerError):
    """Elasticsearch is away, overloaded for too long, or blocks writes."""

    exit_code = 3


class LockedError(IndexerError):
    """Another run holds the lock."""

    exit_code = 4


class FencedError(LockedError):
    """The alias that a run writes through was taken away from it, by the run that took over its lock."""


class ItemError(Exception):
    """One line of the source is no usable record. `field` is its path in the envelope, empty for the whole line."""

    def __init__(self, field: str, reason: str) -> None:
        """Keep where the fault is and what it is."""
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn the client's exceptions into EngineError, so that none leaves the package."""
    try:
        yield
    except TransportError as error:
        raise EngineError(f"Elasticsearch cannot be reached: {_cause(error)}. Check ELASTICSEARCH_URL.") from error
    except ApiError as error:
        raise EngineError(f"Elasticsearch answered {error.meta.status}: {reason(error.body)}.") from error


def _cause(error: TransportError) -> str:
    return str(error.message).rstrip(".")


def reason(body: object) -> str:
    """Return the most telling text of an error answer, the root cause before what it led to."""
    error = told(body)
    if not isinstance(error, dict):
        return str(error)
    cause = error.get("caused_by") or {}
    return ": ".join(str(text) for text in (error.get("reason"), cause.get("reason")) if text)


def told(body: object) -> object:
    """Return what an error answer says: its `error` object where it has one, else its text or whatever it is.

    Answers to raw requests (`cluster.raw`) are bytes, and those of a proxy in between need not be JSON.
    """
    parsed = _parsed(body) if isinstance(body, bytes) else body
    return parsed.get("error", parsed) if isinstance(parsed, dict) else parsed


def _parsed(body: bytes) -> object:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")
