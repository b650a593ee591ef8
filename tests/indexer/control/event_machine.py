"""The resources, the control index and the event readers in memory: everything that may happen between two steps.

Appending (`indexer.reso.event_ledger.publish_events`) and reading
(`service.reso.entity_events.EventLedgerReader`) are the product's own code. A call to Elasticsearch pauses
before and after its effect; meanwhile others continue, and a process may be killed.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, cast

import msgspec
from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig
from elasticsearch import ConflictError

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark, mark_id
from indexer.reso.event_ledger import publish_events
from indexer.settings import IndexerContext, IndexerSettings
from mappings import Resource
from service.reso.entity_events import EventLedger, EventLedgerReader

_META = ApiResponseMeta(409, "1.1", HttpHeaders(), 0.0, NodeConfig("http", "memory", 9200))


class _Pause:
    def __await__(self) -> Generator[None]:
        yield


@dataclass
class Control:
    """The control index: documents with the number of their last write."""

    documents: dict[str, tuple[int, Any]] = field(default_factory=dict)
    _writes: int = 0

    def put(self, identifier: str, document: Any) -> None:
        self._writes += 1
        self.documents[identifier] = self._writes, copy.deepcopy(document)

    async def mget(self, *, ids: list[str], **_: str) -> dict[str, Any]:
        """Respond like the client; documents that are read together need not be of one moment."""
        await _Pause()
        head, *marks = ids
        read = [self._got(identifier) for identifier in marks]
        await _Pause()
        return {"docs": [self._got(head), *read]}

    def _got(self, identifier: str) -> dict[str, Any]:
        if identifier not in self.documents:
            return {"found": False}
        number, source = self.documents[identifier]
        return {"found": True, "_seq_no": number, "_primary_term": 1, "_source": copy.deepcopy(source)}

    async def index(self, *, id: str, document: Any, **condition: Any) -> None:  # noqa: A002 - the client's name
        """Write under the condition, between two pauses."""
        await _Pause()
        present = self.documents.get(id)
        is_refused = condition.get("op_type") == "create" and present is not None
        if is_refused or condition.get("if_seq_no", present and present[0]) != (present and present[0]):
            raise ConflictError("version conflict", _META, {})
        self.put(id, document)
        await _Pause()

    def options(self, **_: int) -> Control:
        return self

    @property
    def indices(self) -> Control:
        return self

    async def get_settings(self, *, index: list[str], **_: Any) -> dict[str, Any]:
        """Respond like the client with the identity of this index, which nothing changes."""
        return {name: {"settings": {"index.uuid": "the-same"}} for name in index}

    async def delete(self, *, id: str, **_: str) -> None:  # noqa: A002 - the client's name
        await _Pause()
        self.documents.pop(id, None)

    async def get_document(self, _index: str, identifier: str) -> Any:
        """Respond like the service's search engine."""
        found = self.documents.get(identifier)
        return None if found is None else copy.deepcopy(found[1])


@dataclass
class FeedOutput:
    """One version of a document: its sequence, and its content, None of a tombstone."""

    sequence: int
    content: int | None


Documents = dict[str, FeedOutput]


class Live:
    """One resource: what searches see, what they do not see yet, the previous generation, and the mark."""

    def __init__(self, control: Control, resource: Resource) -> None:
        self._control = control
        self.alias = resource.alias
        self.seen: Documents = {"first": FeedOutput(1, 0)}
        self.unseen: Documents = {}
        self.earlier = dict(self.seen)
        self.mark = Mark(clock=0, sequence=0, epoch=0, generation="")
        self.sequence = 1
        self.is_taken_back = False
        self.ready: Mark | None = None

    def write(self, name: str, content: int | None) -> None:
        """Stamp and send one record."""
        self.sequence += 1
        self.unseen[name] = FeedOutput(self.sequence, content)

    def refresh(self) -> None:
        """Make writes visible, and prepare their mark."""
        self.seen |= self.unseen
        self.unseen = {}
        epoch = self.mark.epoch + self.is_taken_back
        self.ready = msgspec.structs.replace(self.mark, sequence=self.sequence, epoch=epoch)

    def publish(self) -> None:
        if self.ready is not None:
            self.mark, self.ready, self.is_taken_back = self.ready, None, False
            self._control.put(mark_id(self.alias), msgspec.to_builtins(self.mark))

    def die(self, *, is_sent: bool) -> None:
        """Kill the writer; its successor lets its writes arrive, and stamps above everything."""
        self.seen |= self.unseen if is_sent else {}
        self.unseen, self.ready = {}, None
        self.sequence = max(self.mark.sequence, *(output.sequence for output in self.seen.values()))

    def rebuild(self) -> None:
        """Keep the present state as the generation that a rollback brings back."""
        self.earlier = dict(self.seen)

    def roll_back(self) -> None:
        """Bring the earlier generation back; the mark follows in a step of its own."""
        self.seen, self.earlier, self.unseen = self.earlier, dict(self.earlier), {}
        self.is_taken_back = True
        self.refresh()

    def prune(self) -> None:
        """Delete the oldest published tombstone, after announcing it."""
        gone = [(output.sequence, name) for name, output in self.seen.items() if output.content is None]
        if gone and min(gone)[0] <= self.mark.sequence and not self.is_taken_back:
            self.mark = msgspec.structs.replace(self.mark, forgotten=max(self.mark.forgotten, min(gone)[0]))
            self.ready = None
            self._control.put(mark_id(self.alias), msgspec.to_builtins(self.mark))
            del self.seen[min(gone)[1]]


class Follower:
    """Keeps a copy by polling for events after the last one, and for the record of each."""

    def __init__(self) -> None:
        self.last = 0
        self.held: dict[tuple[str, str], int] = {}
        self._page: list[tuple[int, str, str]] = []

    def poll(self, world: World, ledger: EventLedger, size: int) -> None:
        page = world.events(ledger, self.last)[:size]
        if 0 < self.last < ledger.horizon(world.marks()):
            self._reconcile(world)
        for number, alias, name in page:
            assert number > self.last
            self.last = number
            self._fetch(world, alias, name)

    def _fetch(self, world: World, alias: str, name: str) -> None:
        """Read the record itself in its present state."""
        output = world.live[alias].seen.get(name)
        self.held.pop((alias, name), None)
        if output is not None and output.content is not None:
            self.held[alias, name] = output.content

    def _reconcile(self, world: World) -> None:
        """Drop records that no longer exist."""
        self.held = {key: content for key, content in self.held.items() if key in world.records()}


class Run(NamedTuple):
    """A run that appends, and the marks that it must have published in the end."""

    work: Coroutine[Any, Any, None]
    promised: Mapping[str, Mark | None]


class _Engine(IndexerContext):
    """A context of which nothing is repeated."""

    @cached_property
    def cluster(self) -> Any:
        return self.client


class World:
    """Everything, and the runs that are appending to the ledger."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self.control = Control()
        self.live = {resource.alias: Live(self.control, resource) for resource in resources}
        self.runs: list[Run] = []
        self._reader = EventLedgerReader(cast("Any", self.control), "control")
        self._engine = _Engine(cast("Any", self.control), ConnectionSettings(prefix=""), IndexerSettings())

    def begin(self, growth: int | None = None) -> None:
        """Start another run, which postpones what makes the ledger grow by more than `growth`."""
        work = publish_events(self._engine, lambda asked: growth is None or asked <= growth)
        self.runs.append(Run(work, self.marks() if growth is None else {}))

    def step(self, at: int) -> None:
        """Advance one run to its next call."""
        run = self.runs.pop(at % len(self.runs))
        try:
            run.work.send(None)
        except StopIteration:
            self._check(run.promised)
            return
        self.runs.append(run)

    def _check(self, promised: Mapping[str, Mark | None]) -> None:
        """Check that a finished run has published what the marks said when it began."""
        reaches = self.read(is_new=True).head.reaches
        output = {alias: (shard_scope.epoch, shard_scope.upto) for alias, shard_scope in reaches.items()}
        assert all(output.get(alias, (0, 0)) >= (mark.epoch, mark.sequence) for alias, mark in promised.items() if mark)

    def kill(self, at: int) -> None:
        self.runs.pop(at % len(self.runs)).work.close()

    def read(self, *, is_new: bool = False) -> EventLedger:
        reader = EventLedgerReader(cast("Any", self.control), "control") if is_new else self._reader
        return asyncio.run(_awaited(reader.read()))

    def marks(self) -> dict[str, Mark | None]:
        return {alias: live.mark for alias, live in self.live.items()}

    def events(self, ledger: EventLedger, after: int) -> list[tuple[int, str, str]]:
        """Return number, alias and name of the events after one, as found by sequence."""
        found: list[tuple[int, str, str]] = []
        for alias, live in self.live.items():
            low, high = ledger.sequence_at(alias, after), ledger.published_sequence(alias)
            output = [
                (ledger.event_number(alias, document.sequence), name)
                for name, document in live.seen.items()
                if low < document.sequence <= high
            ]
            found += [(number, alias, name) for number, name in output if number is not None]
        return sorted(found)

    def records(self) -> dict[tuple[str, str], int]:
        return {
            (alias, name): output.content
            for alias, live in self.live.items()
            for name, output in live.seen.items()
            if output.content is not None
        }


async def _awaited(work: Awaitable[EventLedger]) -> EventLedger:
    return await work
