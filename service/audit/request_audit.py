"""What one request sends, as the audit records it: noted by handlers, recorded once the response is decided."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from aiohttp import web

from cluster.control_index import Mark
from mappings.identifiers import is_identifier
from mappings.resource import Resource
from service.audit.audit_rows import ABSENT, EVENT, LIVE
from service.audit.sent_identifiers import identifiers_of_changes, identifiers_of_hits, identifiers_of_lines
from service.http.conditional import has_sent_tag
from service.http.payload import JsonBytes

# By alias of the resource and state of the records.
SentNames = Mapping[tuple[str, str], Sequence[str]]


class SentRecords(NamedTuple):
    """What a response sends: identifiers, read later, and the sequences that it is at least as new as, by alias."""

    read: Callable[[], SentNames]
    sequences: Mapping[str, int]


class RecordSent(Protocol):
    """Takes what a key was sent; `unchanged` if a 304 confirmed that it still has it."""

    def __call__(self, key_id: str, sent: Sequence[SentRecords], *, unchanged: bool) -> None:
        """Record it in the background."""


class RequestAudit:
    """Notes what one request sends. This one notes nothing: the audit is off."""

    def searches(self, resource: Resource, mark: Mark | None) -> None:
        """Note the mark that the next search is at least as new as."""

    def ends(self) -> list[int] | None:
        """Return a list for the positions after records, which `hits` needs; None if it does not."""
        return None

    def hits(self, resource: Resource, response: bytes, ends: list[int] | None, count: int) -> None:
        """Note the first `count` hits of a response of Elasticsearch, sorted by identifier or feed key."""

    def values(self, resource: Resource, values: Sequence[Any]) -> None:
        """Note the doc values of records, as `service.records.timestamps_only` returns them."""

    def names(self, resource: Resource, names: Sequence[str]) -> None:
        """Note records by their identifiers."""

    def events(self, resource: Resource, names: Sequence[str], sequence: int) -> None:
        """Note entries of EntityEvent by the identifiers of their records, read up to a sequence."""

    def changes(self, entries: Sequence[bytes], sequences: Mapping[str, int]) -> None:
        """Note encoded changes, read up to these sequences."""

    def batch(self, resource: Resource, lines: Sequence[JsonBytes]) -> None:
        """Record a batch of a stream at once, by the beginnings of its lines."""

    def absent(self, resource: Resource, name: str) -> None:
        """Record at once that the key requested a record and gets 404."""

    def finish(self, request: web.BaseRequest, response: web.Response) -> None:
        """Record what was noted, once the response is decided."""


REQUEST_AUDIT = web.RequestKey("request_audit", RequestAudit)
NOT_AUDITED = RequestAudit()


class RecordingAudit(RequestAudit):
    """Notes what one request of a key sends."""

    def __init__(self, record: RecordSent, key_id: str, *, is_head: bool) -> None:
        """Record with `record` at the end; a response to HEAD has no body."""
        self._record, self._key_id, self._is_head = record, key_id, is_head
        self._sequences: dict[str, int] = {}
        self._noted: list[SentRecords] = []

    def searches(self, resource: Resource, mark: Mark | None) -> None:
        """Note the mark that the next search is at least as new as."""
        if mark is not None:
            self._sequences.setdefault(resource.alias, mark.sequence)

    def ends(self) -> list[int] | None:
        """Return a list for the positions after records, which `hits` needs."""
        return []

    def hits(self, resource: Resource, response: bytes, ends: list[int] | None, count: int) -> None:
        """Note the first `count` hits of a response of Elasticsearch, sorted by identifier or feed key."""
        key = (resource.alias, LIVE)
        if count:
            self._note(lambda: {key: identifiers_of_hits(response, ends or (), count)})

    def values(self, resource: Resource, values: Sequence[Any]) -> None:
        """Note the doc values of records, as `service.records.timestamps_only` returns them."""
        key = (resource.alias, LIVE)
        self._note(lambda: {key: [value.id[0] for value in values]})

    def names(self, resource: Resource, names: Sequence[str]) -> None:
        """Note records by their identifiers."""
        self._note(lambda: {(resource.alias, LIVE): names})

    def events(self, resource: Resource, names: Sequence[str], sequence: int) -> None:
        """Note entries of EntityEvent by the identifiers of their records, read up to a sequence."""
        key = (resource.alias, EVENT)
        self._noted.append(SentRecords(lambda: {key: names}, {resource.alias: sequence}))

    def changes(self, entries: Sequence[bytes], sequences: Mapping[str, int]) -> None:
        """Note encoded changes, read up to these sequences."""
        if entries:
            self._noted.append(SentRecords(partial(identifiers_of_changes, entries), sequences))

    def batch(self, resource: Resource, lines: Sequence[JsonBytes]) -> None:
        """Record a batch of a stream at once, by the beginnings of its lines."""
        key = (resource.alias, LIVE)
        self._record_now(lambda: {key: identifiers_of_lines(lines)})

    def absent(self, resource: Resource, name: str) -> None:
        """Record at once that the key requested a record and gets 404."""
        key = (resource.alias, ABSENT)
        # Whatever else a path names could pretend to be several identifiers.
        if is_identifier(name):
            self._record_now(lambda: {key: [name]})

    def finish(self, request: web.BaseRequest, response: web.Response) -> None:
        """Record what was noted. A 304 sends nothing, but says that the key has the records of its tag."""
        unchanged = response.status == HTTPStatus.NOT_MODIFIED
        if self._noted and not self._is_head and (not unchanged or has_sent_tag(request, response)):
            self._record(self._key_id, self._noted, unchanged=unchanged)

    def _note(self, read: Callable[[], SentNames]) -> None:
        self._noted.append(SentRecords(read, self._sequences))

    def _record_now(self, read: Callable[[], SentNames]) -> None:
        if not self._is_head:
            self._record(self._key_id, [SentRecords(read, self._sequences)], unchanged=False)
