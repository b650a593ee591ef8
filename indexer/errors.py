"""Errors that end an indexer run, each with the exit code of the command and a sentence for the operator."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from elasticsearch import ApiError, TransportError

from cluster.client import error_reason, failure_sentence, is_write_block


class IndexerError(Exception):
    """The run cannot continue; the text is a sentence for people."""

    exit_code = 1


class RefusedError(IndexerError):
    """The operation was refused because it would harm what is served."""


class ObjectionError(RefusedError):
    """A check objects to a candidate; force overrides it."""


class SourceError(IndexerError):
    """The source cannot be read."""

    exit_code = 2


class WorkFolderError(IndexerError):
    """A folder that the run writes to cannot be used."""


class ElasticsearchError(IndexerError):
    """Elasticsearch is unreachable, overloaded for too long, or blocks writes."""

    exit_code = 3


class BlockedError(ElasticsearchError):
    """An index refuses writes, as all do while disks are full; waiting does not help."""

    def __init__(self, body: object) -> None:
        reason = error_reason(body).rstrip(";")
        super().__init__(f"Elasticsearch rejects writes: {reason}. Free disk space or remove the block.")

    def __reduce__(self) -> tuple[type[ElasticsearchError], tuple[str]]:
        """Return what a loader process pickles."""
        return ElasticsearchError, (str(self),)


class LockedError(IndexerError):
    exit_code = 4


class ClockError(IndexerError):
    """This host's clock differs too much from Elasticsearch's."""


class FencedError(LockedError):
    """The run that took over the lock has removed the alias that this one writes through."""


_POSITION = re.compile(r"\[[0-9]+\]")


class InvalidRecordError(Exception):
    """One line of the source is not a valid record. `field` is its path in the envelope, empty for the whole line.

    `others` are its further faults.
    """

    def __init__(self, field: str, reason: str, others: tuple[InvalidRecordError, ...] = ()) -> None:
        super().__init__(f"{field}: {reason}" if field else reason)
        self.field = field
        self.reason = reason
        self.others = others

    @classmethod
    def of_all(cls, faults: Sequence[InvalidRecordError]) -> InvalidRecordError:
        """Return the first of some faults, with the others."""
        return cls(faults[0].field, faults[0].reason, tuple(faults[1:]))

    @property
    def member(self) -> str:
        """The field without positions in lists."""
        return _POSITION.sub("", self.field)

    @property
    def all(self) -> tuple[InvalidRecordError, ...]:
        return (self, *self.others)

    def __reduce__(self) -> tuple[type[InvalidRecordError], tuple[str, str, tuple[InvalidRecordError, ...]]]:
        """Return what a loader process pickles."""
        return InvalidRecordError, (self.field, self.reason, self.others)


@contextmanager
def translate_client_errors() -> Iterator[None]:
    """Translate the client's exceptions into ElasticsearchError, so that none leaves the package."""
    try:
        yield
    except (TransportError, ApiError) as error:
        if isinstance(error, ApiError) and is_write_block(error.body):
            raise BlockedError(error.body) from error
        raise ElasticsearchError(failure_sentence(error)) from error


@contextmanager
def report_folder_errors(folder: object, advice: str) -> Iterator[None]:
    """Translate failures of writing to a folder into WorkFolderError; `advice` is a sentence."""
    try:
        yield
    except OSError as error:
        raise WorkFolderError(f"{folder} cannot be written to: {error.strerror or error}. {advice}") from error
