"""A replication: load, follow changes, compare keys and publish; an interrupted run resumes.

First the entities are selected that the source describes and authorizes; each round ends with a report.
"""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from cluster.client import gather_or_cancel
from cluster.private_files import make_folder, open_private
from cluster.terminal import counted
from indexer.errors import LockedError, SourceError
from indexer.reporting.report import OnProgress, RunSummary, check_folder
from indexer.reso.client import edmx
from indexer.reso.client.odata import SourceRejectedError
from indexer.reso.client.reso_client import ResoClient, SourceTraffic
from indexer.reso.entity_forms import WITHOUT, Gap, SourceForms, empty_gaps, find_gaps, unread_gap
from indexer.reso.mirror import Mirror
from indexer.reso.outbox import Outbox
from indexer.reso.publisher import MirrorPublisher
from indexer.reso.settings import ResoSettings
from indexer.reso.source_map import BY_EVENTS, BY_TIMESTAMPS, ReplicationPlan
from indexer.reso.sync.entity_events import EVENT_ENTITY, EntityEventFollower
from indexer.reso.sync.entity_reader import ChildRecords, EntityReader, SourceContext
from indexer.reso.sync.entity_sync import EntitySync
from indexer.reso.sync.key_comparisons import KeyComparisons
from indexer.settings import IndexerContext

Result = TypeVar("Result")


@asynccontextmanager
async def open_replication(
    context: IndexerContext,
    plan: ReplicationPlan,
    settings: ResoSettings,
    on_progress: OnProgress,
    on_wait: Callable[[str], None],
) -> AsyncIterator[Replicator]:
    """Open mirror and source; raise SourceError, LockedError, ElasticsearchError."""
    check_folder(context.settings.dead_letter_folder)
    with (
        _lock_mirror(Path(settings.folder), plan.mirror_name) as path,
        _source_errors(),
        closing(Mirror(path, plan.dictionary)) as mirror,
    ):
        client = ResoClient(plan.url, settings, on_wait, plan.dialect, mirror)
        await client.open()
        try:
            yield await _start(context, plan, SourceContext(client, mirror, settings, on_progress))
        finally:
            await client.close()


@contextmanager
def _lock_mirror(folder: Path, name: str) -> Iterator[Path]:
    """Hold the lock file of a mirror; the operating system releases it when the process ends, however it ends."""
    try:
        make_folder(folder)
        file = open(folder / f"{name}.lock", "w", opener=open_private)  # noqa: SIM115 - `Path.open` has no opener
    except OSError as error:
        raise SourceError(f"BROKERAGE_RESO_DIR={folder} cannot be used: {error.strerror}.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise LockedError(f"Another run is replicating into {folder / name}.") from None
        yield folder / f"{name}.sqlite"


@contextmanager
def _source_errors() -> Iterator[None]:
    try:
        yield
    except SourceRejectedError as error:
        raise SourceError(str(error)) from None
    except RecursionError:
        raise SourceError("A record of the source is nested too deeply.") from None
    except sqlite3.Error as error:
        raise SourceError(f"The mirror in BROKERAGE_RESO_DIR cannot be used: {error}.") from error


async def _start(context: IndexerContext, plan: ReplicationPlan, source: SourceContext) -> Replicator:
    offered = await source.client.fetch_metadata(edmx.parse_entity_sets)
    if plan.changes == BY_EVENTS and EVENT_ENTITY not in offered:
        raise SourceError(f"The source has no {EVENT_ENTITY}. Use --changes {BY_TIMESTAMPS}.")
    excluded = {name for name, kind in WITHOUT.items() if kind in plan.without}
    forms = SourceForms(plan.dialect, plan.dictionary, offered, excluded)
    readers = build_readers(plan, source, forms)
    publisher = MirrorPublisher(context, plan, source.mirror, source.on_progress)
    await publisher.prepare()
    refused: dict[str, str] = {}
    syncs = await start_authorized(readers, refused)
    gaps = find_gaps(plan.dialect, forms, offered, plan.without)
    gaps += [gap for name, reason in refused.items() if (gap := unread_gap(name, reason)).kind not in plan.without]
    notices = [*filter(None, map(forms.placed, plan.dialect.children)), *(gap.text for gap in gaps)]
    is_by_events = plan.changes != BY_TIMESTAMPS and EVENT_ENTITY in offered
    events = await _start_events(plan, source, syncs, notices) if is_by_events else None
    return Replicator(source, syncs, events, publisher, notices, plan, gaps)


async def _start_events(
    plan: ReplicationPlan, source: SourceContext, syncs: Mapping[str, EntitySync], not_granted: list[str]
) -> EntityEventFollower | None:
    """Return the follower of events, with its start set; None if the source describes events but denies access.

    Changes between a load without a start and the new start are found by comparing keys. That comparison is scheduled
    before the start is stored.
    """
    readers = {name: sync.reader for name, sync in syncs.items()}
    events = EntityEventFollower(source.client, source.mirror, readers, source.settings)
    if events.last_processed is None:
        try:
            sequence = await events.latest_sequence()
        except SourceRejectedError as error:
            if plan.changes == BY_EVENTS or error.status not in NOT_AUTHORIZED:
                raise
            not_granted.append(f"{error} The source is followed by timestamps.")
            return None
        for sync in syncs.values():
            if sync.state.loaded:
                sync.record_comparison(0.0)
        events.set_start(sequence)
    return events


@dataclass
class Replicator:
    source: SourceContext
    syncs: dict[str, EntitySync]
    events: EntityEventFollower | None
    publisher: MirrorPublisher
    notices: list[str]  # of what is missing and of a restored index, reported once
    plan: ReplicationPlan
    gaps: list[Gap]  # what the source is expected to give and does not
    comparisons: KeyComparisons = field(init=False)

    def __post_init__(self) -> None:
        rate = self.source.client.requests_per_second
        self.comparisons = KeyComparisons(self.syncs, self.source.settings, rate)

    async def run_round(self) -> RoundResult:
        started = self.source.client.source_time
        by_events = await self._entities_with_events()
        if notice := self.comparisons.plan(by_events):
            self.notices.append(notice)
        problems = await self._sync_all(by_events)
        known = {*self.plan.without, *(gap.kind for gap in self.gaps)}  # accepted, or reported already
        gaps = [*self.gaps, *empty_gaps(self.source.mirror, self.plan.dialect, known)]
        problems += [gap.text for gap in gaps if gap.is_problem]
        if notice := await self.publisher.follow_epochs():
            self.notices.append(notice)
        if refusal := self.publisher.limit_removals(self.source.settings.removal_limit):
            problems.append(refusal)
        summary = await self.publisher.publish()
        is_complete = not any(report.refusal for report in summary.resources)
        await self.publisher.record_status(
            int(started.timestamp() * 1000) if is_complete else None,
            BY_EVENTS if by_events else BY_TIMESTAMPS,
            " ".join(problems) or None,
            self.comparisons.keys_checked,
            [gap.text for gap in gaps],
        )
        summary.missing = [gap.text for gap in gaps]
        summary.problems, summary.keys_checked = [*problems, *summary.problems], self.comparisons.keys_checked
        return RoundResult(summary, self._report())

    async def _entities_with_events(self) -> frozenset[str]:
        if self.events is None:
            return frozenset()
        has_events = await gather_or_cancel(*(self.events.has_events_of(name) for name in self.syncs))
        return frozenset(name for name, is_by_events in zip(self.syncs, has_events, strict=True) if is_by_events)

    async def _sync_all(self, by_events: frozenset[str]) -> list[str]:
        """Bring the mirror up to date; return the problems of the round."""
        problems: list[str] = []
        await gather_or_cancel(
            *(self._sync_entity(sync, by_times=name not in by_events) for name, sync in self.syncs.items())
        )
        if self.events is not None and not await self.events.follow():
            problems.append("The source no longer has all events since the last round: comparing all keys.")
            await gather_or_cancel(*(sync.compare_keys() for sync in self.syncs.values()))
            self.events.restart()
        return [*problems, *self.comparisons.refusals()]

    async def _sync_entity(self, sync: EntitySync, *, by_times: bool) -> None:
        if not sync.state.loaded:
            await sync.load()
            if not by_times:
                await sync.compare_if_incomplete()
        if by_times:
            await sync.follow_changes()
            await sync.recheck_recent()
        await self.comparisons.run(sync, by_times=by_times)
        sync.reader.finish()

    def _report(self) -> list[str]:
        readers = [sync.reader for sync in self.syncs.values()]
        children = [child for reader in readers for child in reader.children]
        lines = summarize_round([*readers, *children], self.source.client.traffic, self.publisher.outbox)
        lines, self.notices = [*self.notices, *lines], []
        return lines


_DICTIONARY_NOTE = "dictionary"
_REQUIRED_ENTITY = "Property"
NOT_AUTHORIZED = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


def build_readers(plan: ReplicationPlan, source: SourceContext, forms: SourceForms) -> dict[str, EntityReader]:
    """Return a reader of each mapped entity with a set of its own; raise SourceError if a required one is missing."""
    sets = forms.own_sets()
    if _REQUIRED_ENTITY not in sets:
        raise SourceError(f"The source has no {_REQUIRED_ENTITY}. Is {plan.url} the root of a RESO Web API?")
    entities = plan.dictionary.entities
    readers = {name: EntityReader(name, entities[name], forms.select(name), source, forms.form(name)) for name in sets}
    _record_selection(plan, source.mirror, readers)
    return readers


def _record_selection(plan: ReplicationPlan, mirror: Mirror, readers: dict[str, EntityReader]) -> None:
    """Reload entities whose selected fields changed; publish everything again if the dictionary changed."""
    for name, reader in readers.items():
        selection = [*reader.select, reader.entity.filter, *reader.form.identity]
        if (previous := mirror.read_note(f"asked {name}")) != selection:
            with mirror.transaction():
                if previous is not None:
                    EntitySync.reset(mirror, name)
                mirror.write_note(f"asked {name}", selection)
    fingerprint = f"{plan.dictionary.fingerprint} {plan.time_zone or ''}"
    if (previous := mirror.read_note(_DICTIONARY_NOTE)) != fingerprint:
        with mirror.transaction():
            if previous is not None:
                mirror.mark_all_due()
            mirror.write_note(_DICTIONARY_NOTE, fingerprint)


async def start_authorized(readers: Mapping[str, EntityReader], refused: dict[str, str]) -> dict[str, EntitySync]:
    """Return the syncs of authorized entities, each with its start set; add a reason for each other entity.

    A licence often covers less than the metadata describes. Raise SourceRejectedError for a required entity. An entity
    that was readable before raises it later, when it is read.
    """
    syncs = {name: EntitySync(reader) for name, reader in readers.items()}
    for name, sync in list(syncs.items()):
        try:
            await sync.set_start()
        except SourceRejectedError as error:
            if error.status not in NOT_AUTHORIZED or name == _REQUIRED_ENTITY:
                raise
            refused[name] = str(error)
            del syncs[name]
    return syncs


# A longer list of fields with unmappable values would add nothing.
_MAX_FIELDS_SHOWN = 20


@dataclass
class RoundResult:
    """The result of a round; `lines` is empty if nothing changed."""

    summary: RunSummary
    lines: list[str] = field(default_factory=list)


def summarize_round(
    readers: Iterable[EntityReader | ChildRecords], traffic: SourceTraffic, outbox: Outbox
) -> list[str]:
    """Return the report since the last call, and reset all counters."""
    lines = [line for reader in readers for line in _reader_lines(reader)]
    if lines:
        requests, received = traffic.requests.total(), traffic.received.total()
        lines.append(f"{counted(requests, 'request')}, {received / 1e6:,.1f} MB from the source.")
    traffic.requests.clear()
    traffic.received.clear()
    return [*lines, *_omitted_lines(outbox)]


def _reader_lines(reader: EntityReader | ChildRecords) -> Iterator[str]:
    counts = {"changed": reader.changed, "removed": reader.removed, f"without {reader.key}": reader.without_key}
    if any(counts.values()):
        changes = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        yield f"{reader.name}: {reader.report.read:,} read, {changes}."
    if isinstance(reader, ChildRecords) and reader.fewer:
        yield (
            f"{reader.name}: {reader.fewer:,} of {reader.parent} have fewer than {reader.form.counted_by} says; "
            f"for example, {reader.example}."
        )
        reader.fewer, reader.example = 0, ""
    reader.changed = reader.removed = reader.without_key = reader.report.read = 0


def _omitted_lines(outbox: Outbox) -> Iterator[str]:
    for name, count in outbox.omitted.most_common(_MAX_FIELDS_SHOWN):
        yield f"{name}: {count:,} left out; for example, {outbox.omitted_examples[name]}."
    if (more := len(outbox.omitted) - _MAX_FIELDS_SHOWN) > 0:
        yield f"Values of {counted(more, 'more field')} were left out."
    for kind, count in outbox.assumed.most_common(_MAX_FIELDS_SHOWN):
        yield f"{kind[0]}: {count:,} {kind[1]}; for example, {outbox.assumed_examples[kind]}."
    for counts in (outbox.omitted, outbox.omitted_examples, outbox.assumed, outbox.assumed_examples):
        counts.clear()
