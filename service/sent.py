"""What responses send, as the core tells it to who observes it: the audit, if it is installed and configured."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from aiohttp import web

from cluster.control_index import Mark
from mappings.resource import Resource
from service.http.responses import JsonBytes


class Sent(Protocol):
    """Notes what one request sends."""

    def searches(self, resource: Resource, mark: Mark | None) -> None:
        """Note the mark that the next search is at least as new as."""

    def ends(self) -> list[int] | None:
        """Return a list for the positions after records, which `hits` needs; None if it does not."""

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


class SentObserver:
    """Opens the notes of each request."""

    def open(self, key_id: str, *, is_head: bool) -> Sent:
        """Return the notes of one request of a key."""
        raise NotImplementedError
