"""The resources, the control index and the readers of events in memory: everything that may happen between two steps.

What appends (`indexer.events.tell`) and what reads (`service.reso.sequence.Reader`) are the product's own; a call to
the engine stops before and behind its effect, where others go on and where a process may be killed.
"""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec
from elastic_transport import ApiResponseMeta, HttpHeaders, NodeConfig
from elasticsearch import ConflictError

from cluster.connection import ConnectionSettings
from cluster.control import Mark, mark_id
from indexer.engine import Engine
from indexer.events import tell
from indexer.settings import IndexerSettings
from service.reso.sequence import Ledger, Reader

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Generator, Mapping

    from mappings import Resource

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
        """Write unconditionally."""
        self._writes += 1
        self.documents[identifier] = self._writes, copy.deepcopy(document)

    async def mget(self, *, ids: list[str], **_: str) -> dict[str, Any]:
        """Answer like the client; what is read together need not be of one moment."""
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
        """Answer like the client."""
        return self

    async def delete(self, *, id: str, **_: str) -> None:  # noqa: A002 - the client's name
        """Delete behind a pause."""
        await _Pause()
        self.documents.pop(id, None)

    async def document(self, _index: str, identifier: str) -> Any:
        """Answer like the service's engine."""
        found = self.documents.get(identifier)
        return None if found is None else copy.deepcopy(found[1])


@dataclass
class Told:
    """One version of a document: its sequence, and its content, None of a tombstone."""

    sequence: int
    content: int | None


Documents = dict[str, Told]


class Live:
    """One resource: what searches see, what they do not see yet, the generation before, and the mark."""

    def __init__(self, control: Control, resource: Resource) -> None:
        """There is one record, and no mark."""
        self._control = control
        self.alias = resource.alias
        self.seen: Documents = {"first": Told(1, 0)}
        self.unseen: Documents = {}
        self.earlier = dict(self.seen)
        self.mark = Mark(clock=0, sequence=0, epoch=0, generation="")
        self.sequence = 1
        self.is_taken_back = False
        self.ready: Mark | None = None

    def write(self, name: str, content: int | None) -> None:
        """Stamp and send one record."""
        self.sequence += 1
        self.unseen[name] = Told(self.sequence, content)

    def refresh(self) -> None:
        """Make visible what was sent, and have the mark of it ready."""
        self.seen |= self.unseen
        self.unseen = {}
        epoch = self.mark.epoch + self.is_taken_back
        self.ready = msgspec.structs.replace(self.mark, sequence=self.sequence, epoch=epoch)

    def publish(self) -> None:
        """Publish the mark that is ready."""
        if self.ready is not None:
            self.mark, self.ready, self.is_taken_back = self.ready, None, False
            self._control.put(mark_id(self.alias), msgspec.to_builtins(self.mark))

    def die(self, *, is_sent: bool) -> None:
        """Lose the writer; the next one lets arrive what was sent, and stamps above everything that there is."""
        self.seen |= self.unseen if is_sent else {}
        self.unseen, self.ready = {}, None
        self.sequence = max(self.mark.sequence, *(told.sequence for told in self.seen.values()))

    def rebuild(self) -> None:
        """Keep what there is as the generation that a rollback brings back."""
        self.earlier = dict(self.seen)

    def roll_back(self) -> None:
        """Bring the earlier generation back; the mark follows in a step of its own."""
        self.seen, self.earlier, self.unseen = self.earlier, dict(self.earlier), {}
        self.is_taken_back = True
        self.refresh()

    def prune(self) -> None:
        """Delete the oldest tombstone that is published, having said so."""
        gone = [(told.sequence, name) for name, told in self.seen.items() if told.content is None]
        if gone and min(gone)[0] <= self.mark.sequence and not self.is_taken_back:
            self.mark = msgspec.structs.replace(self.mark, forgotten=max(self.mark.forgotten, min(gone)[0]))
            self.ready = None
            self._control.put(mark_id(self.alias), msgspec.to_builtins(self.mark))
            del self.seen[min(gone)[1]]


class Follower:
    """Keeps a copy by asking for events behind the last one, and for the record of each."""

    def __init__(self) -> None:
        """Have nothing."""
        self.last = 0
        self.held: dict[tuple[str, str], int] = {}
        self._page: list[tuple[int, str, str]] = []

    def poll(self, world: World, ledger: Ledger, size: int) -> None:
        """Ask for one page."""
        page = world.events(ledger, self.last)[:size]
        if 0 < self.last < ledger.horizon(world.marks()):
            self._reconcile(world)
        for number, alias, name in page:
            assert number > self.last
            self.last = number
            self._fetch(world, alias, name)

    def _fetch(self, world: World, alias: str, name: str) -> None:
        """Read the record itself, as it is by now."""
        told = world.live[alias].seen.get(name)
        self.held.pop((alias, name), None)
        if told is not None and told.content is not None:
            self.held[alias, name] = told.content

    def _reconcile(self, world: World) -> None:
        """Drop what there is no longer."""
        self.held = {key: content for key, content in self.held.items() if key in world.records()}


class Run(NamedTuple):
    """Something that appends, and the marks that it must have told in the end."""

    work: Coroutine[Any, Any, None]
    promised: Mapping[str, Mark | None]


class World:
    """All of it, and the runs that are appending to the ledger."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        """Begin with one record of each resource."""
        self.control = Control()
        self.live = {resource.alias: Live(self.control, resource) for resource in resources}
        self.telling: list[Run] = []
        self._reader = Reader(cast("Any", self.control), "control")
        self._engine = Engine(cast("Any", self.control), ConnectionSettings(prefix=""), IndexerSettings())

    def begin(self, growth: int | None = None) -> None:
        """Let one more run append, which puts off whatever makes the ledger grow by more than `growth`."""
        work = tell(self._engine, lambda asked: growth is None or asked <= growth)
        self.telling.append(Run(work, self.marks() if growth is None else {}))

    def step(self, at: int) -> None:
        """Let one of them go on up to its next call."""
        run = self.telling.pop(at % len(self.telling))
        try:
            run.work.send(None)
        except StopIteration:
            self._check(run.promised)
            return
        self.telling.append(run)

    def _check(self, promised: Mapping[str, Mark | None]) -> None:
        """Check that a run that has ended has told what was published when it began."""
        reaches = self.read(is_anew=True).head.reaches
        told = {alias: (reach.epoch, reach.upto) for alias, reach in reaches.items()}
        assert all(told.get(alias, (0, 0)) >= (mark.epoch, mark.sequence) for alias, mark in promised.items() if mark)

    def kill(self, at: int) -> None:
        """End one of them where it is."""
        self.telling.pop(at % len(self.telling)).work.close()

    def read(self, *, is_anew: bool = False) -> Ledger:
        """Return the ledger as a process of the service reads it that has read it before, or `anew`."""
        reader = Reader(cast("Any", self.control), "control") if is_anew else self._reader
        return asyncio.run(_awaited(reader.read()))

    def marks(self) -> dict[str, Mark | None]:
        """Return the published marks."""
        return {alias: live.mark for alias, live in self.live.items()}

    def events(self, ledger: Ledger, after: int) -> list[tuple[int, str, str]]:
        """Return number, alias and name of the events behind one, as they are found by sequence."""
        found: list[tuple[int, str, str]] = []
        for alias, live in self.live.items():
            low, high = ledger.place(alias, after), ledger.upto(alias)
            told = [
                (ledger.number(alias, each.sequence), name)
                for name, each in live.seen.items()
                if low < each.sequence <= high
            ]
            found += [(number, alias, name) for number, name in told if number is not None]
        return sorted(found)

    def records(self) -> dict[tuple[str, str], int]:
        """Return what searches find."""
        return {
            (alias, name): told.content
            for alias, live in self.live.items()
            for name, told in live.seen.items()
            if told.content is not None
        }


async def _awaited(work: Awaitable[Ledger]) -> Ledger:
    return await work
