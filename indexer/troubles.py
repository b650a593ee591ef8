"""The standing list: records that are not served as their source says, because its newest line cannot be read.

A line that cannot be read leaves its record as it was. The record stands on the list from then on, across runs and
commands, until a later line of it is served, a full source lacks it or has it in a readable form, or it is dismissed
by name. A listing that is still on the market after BROKERAGE_TROUBLE_HOURS is withdrawn as BROKERAGE_TROUBLE_POLICY
says: the change is an update like any other, so feeds, digests, files and licences agree with it.

The list of a resource is a few documents of the control index; healthy records cost nothing. Another one has the number
of its records and the time of the oldest, for the service.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any

import msgspec
from elasticsearch import ConflictError
from msgspec import structs

from cluster.control_index import StandingTroubles, total_troubles, troubles_id, troubles_sentence
from indexer.bulk import BulkWrite
from indexer.changes.rewrites import version_over, write_all
from indexer.changes.stamps import remember
from indexer.changes.write_session import open_write_session
from indexer.clock import now_milliseconds, version_microseconds
from indexer.control import read_documents, unchanged
from indexer.documents.builder import (
    NO_LINE,
    Marked,
    PendingDocument,
    document_builder,
    stored_envelope,
    tombstone_document,
)
from indexer.errors import translate_client_errors
from indexer.generations.candidate import Candidate
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.lock import ignore_wait
from indexer.reporting.report import Fault, RunSummary
from indexer.scan import IndexRow, StoredDocument, fetch_documents, look_up_rows
from indexer.settings import IndexerContext, TroublePolicy
from indexer.source.lines import RejectedLine
from mappings import COMPANY, LISTING, RESOURCES, Resource
from mappings.listing import FOR_SALE_STATUSES
from mappings.stored_document import TombstoneReason, bucket, split_record

# The documents of a resource's list: a source may have a hundred unreadable lines in ten thousand.
_PARTS = 16
_HOUR_MILLISECONDS = 3_600_000
_UNKNOWN = -1


class Served(StrEnum):
    """What is served of a record that stands on the list."""

    BEFORE = "as before"
    OFF_MARKET = "off the market"
    WITHHELD = "withheld"
    NOTHING = "nothing"  # it was never loaded, or was deleted


class Trouble(msgspec.Struct, kw_only=True):
    """A record that is not served as its source says. Times are in milliseconds since 1970.

    `field` and `reason` are those of the newest line that could not be read, `origin` its file and line. `version` is
    that of the state that the index had of the record, -1 if it had none: a later one ends the trouble. `company` is
    empty if it is not known. `policy` is that of the source, None for the setting's. `looked_at` is when a run has
    withdrawn the record, or found nothing to withdraw.
    """

    resource: str
    id: str
    company: str
    since: int
    seen: int
    field: str
    reason: str
    origin: str
    version: int
    policy: TroublePolicy | None = None
    dismissed: int | None = None
    looked_at: int | None = None


async def standing_troubles(context: IndexerContext, resources: Sequence[Resource]) -> dict[Resource, list[Trouble]]:
    """Return the troubles of each of the resources, the oldest first."""
    return (await _read_lists(context, resources))[0]


async def _read_lists(
    context: IndexerContext, resources: Sequence[Resource]
) -> tuple[dict[Resource, list[Trouble]], dict[Resource, StandingTroubles]]:
    """Return the troubles of each of the resources, and their totals as they are stored."""
    names = _names(context, resources)
    documents = iter(await read_documents(context, [*names, *(part for name in names for part in _parts(name))]))
    totals = [{} if stored is None else stored["_source"] for stored in islice(documents, len(names))]
    standing = {
        resource: sorted(
            (trouble for part in islice(documents, _PARTS) for trouble in _decoded(part)),
            key=lambda trouble: (trouble.since, trouble.id),
        )
        for resource in resources
    }
    return standing, dict(zip(resources, msgspec.convert(totals, list[StandingTroubles]), strict=True))


def _names(context: IndexerContext, resources: Iterable[Resource]) -> list[str]:
    """Return the names of the documents that have the totals of some resources."""
    aliases = [*map(context.connection.alias, resources)]
    return [*map(troubles_id, aliases)]


def _parts(name: str) -> list[str]:
    """Return the names of the documents that have the troubles of a resource."""
    return [f"{name}-{number}" for number in range(_PARTS)]


def _decoded(part: Mapping[str, Any] | None) -> list[Trouble]:
    return [] if part is None else msgspec.convert(part["_source"]["troubles"], list[Trouble])


async def _save(
    context: IndexerContext,
    resource: Resource,
    raised: Iterable[Trouble],
    ended: Iterable[str] = (),
    *,
    is_mark: bool = False,
) -> None:
    """Write some troubles of a resource, remove those of some records, and write the totals.

    With `is_mark`, one that another run has changed or ended since it was read stays so.
    """
    changes: dict[str, Trouble | None] = {**dict.fromkeys(ended), **{trouble.id: trouble for trouble in raised}}
    if not changes:
        return
    by_part: dict[str, dict[str, Trouble | None]] = {}
    (name,) = _names(context, [resource])
    parts = _parts(name)
    for identifier, change in changes.items():
        by_part.setdefault(parts[bucket(identifier) % _PARTS], {})[identifier] = change
    for part, changed in by_part.items():
        await _change(context, part, changed, is_mark=is_mark)
    await _write_totals(context, [resource])


async def _change(context: IndexerContext, name: str, changes: Mapping[str, Trouble | None], *, is_mark: bool) -> None:
    """Apply changes to one document; try again if another run has written it in between."""
    index = context.connection.control_index
    while True:
        (part,) = await read_documents(context, [name])
        known: dict[str, Trouble | None] = {trouble.id: trouble for trouble in _decoded(part)}
        seen = {identifier: trouble.seen for identifier, trouble in known.items() if trouble is not None}
        made = {
            identifier: change
            for identifier, change in changes.items()
            if not is_mark or (change is not None and seen.get(identifier) == change.seen)
        }
        left = [trouble for trouble in {**known, **made}.values() if trouble is not None]
        condition = {"op_type": "create"} if part is None else unchanged(part)
        try:
            await context.cluster.index(
                index=index, id=name, document={"troubles": msgspec.to_builtins(left)}, **condition
            )
        except ConflictError:
            continue
        return


async def _write_totals(context: IndexerContext, resources: Sequence[Resource]) -> dict[Resource, StandingTroubles]:
    """Store for each resource how many records are not dismissed, where that has changed, and return it."""
    (standing, known), totals = await _read_lists(context, resources), dict[Resource, StandingTroubles]()
    for resource, troubles_of in standing.items():
        since = [trouble.since for trouble in troubles_of if trouble.dismissed is None]
        pending = [
            trouble.since
            for trouble in troubles_of
            if trouble.dismissed is None and not trouble.looked_at and _is_withdrawn(context, resource, trouble)
        ]
        totals[resource] = StandingTroubles(len(since), min(since, default=0), len(pending), min(pending, default=0))
        if totals[resource] != known[resource]:
            (name,), document = _names(context, [resource]), msgspec.to_builtins(totals[resource])
            await context.cluster.index(index=context.connection.control_index, id=name, document=document)
    return totals


def _is_withdrawn(context: IndexerContext, resource: Resource, trouble: Trouble) -> bool:
    """Whether a record is withdrawn after its hours, if it is on the market."""
    policy = trouble.policy or context.settings.trouble_policy
    return resource is LISTING if policy == "off_market" else policy == "withhold" and resource is not COMPANY


async def read_totals(context: IndexerContext, resources: Sequence[Resource]) -> dict[Resource, StandingTroubles]:
    """Return how many records of each resource stand on the list and are not dismissed."""
    return (await _read_lists(context, resources))[1]


@dataclass
class TroubleLog:
    """What a run finds out about one resource: records whose newest line it cannot read, and records that it serves.

    `standing` has the troubles of earlier runs, by identifier.
    """

    context: IndexerContext
    resource: Resource
    standing: dict[str, Trouble] | None = None  # None: not read yet
    _raised: dict[str, tuple[int, Fault]] = field(default_factory=dict)  # by identifier, with the position of the line
    _served: set[str] = field(default_factory=set)  # identifiers of `standing`

    async def open(self) -> None:
        """Read the troubles of earlier runs."""
        if self.standing is None:
            self.standing = await self._read()

    async def _read(self) -> dict[str, Trouble]:
        return await _by_identifier(self.context, self.resource)

    def add_rejected(self, item: RejectedLine) -> None:
        """Note the records of a line that cannot be read."""
        for identifier in item.identifiers or ():
            self._raised[identifier] = (item.position, Fault.of(item))

    def add_served(self, document: PendingDocument, known: IndexRow | None) -> None:
        """Note a state that is live now; `known` is what it replaced. One that was live before ends no trouble."""
        is_news = known is None or document.version > known.version or not document.line.is_dated
        if not is_news:
            return
        if document.id in self._raised and document.line.position > self._raised[document.id][0]:
            del self._raised[document.id]
        if self.standing and document.id in self.standing:
            self._served.add(document.id)

    async def save(self) -> None:
        """Store the troubles that were raised, and delete those that ended; the live index must be refreshed.

        Another run may have changed the list in between, so it is read again and compared with the live index.
        """
        if not (self._raised or self.standing):
            return
        standing, live = await self._read(), await GenerationLifecycle(self.context, self.resource).live()
        rows = await look_up_rows(self.context, live, sorted({*self._raised, *standing})) if live else {}
        faults = {identifier: fault for identifier, (_, fault) in self._raised.items()}
        raised = _troubles(self.resource, faults, rows, standing)
        ended = {
            trouble.id
            for trouble in standing.values()
            if trouble.id not in faults and (trouble.id in self._served or _is_over(trouble, rows))
        }
        await _save(self.context, self.resource, raised, ended)
        self.standing = {name: trouble for name, trouble in standing.items() if name not in ended}
        self.standing |= {trouble.id: trouble for trouble in raised}
        self._raised, self._served = {}, set()


def _troubles(
    resource: Resource, faults: Mapping[str, Fault], rows: Mapping[str, IndexRow], known: Mapping[str, Trouble]
) -> list[Trouble]:
    """Return the troubles of records with their faults; `rows` are live, and `known` stand already.

    One that stands keeps its age, and with the same fault its dismissal.
    """
    now, found = now_milliseconds(), list[Trouble]()
    for identifier, fault in faults.items():
        row, earlier = rows.get(identifier), known.get(identifier)
        trouble = Trouble(
            resource=resource.alias,
            id=identifier,
            company="" if row is None else row.company,
            since=now,
            seen=now,
            field=fault.field,
            reason=fault.reason,
            origin=fault.origin,
            version=_UNKNOWN if row is None else row.version,
            policy=fault.policy,
        )
        if earlier is not None:
            is_same = (earlier.field, earlier.reason) == (fault.field, fault.reason)
            if is_same or earlier.dismissed is None:
                trouble = structs.replace(trouble, since=earlier.since, dismissed=earlier.dismissed)
        found.append(trouble)
    return found


def _is_over(trouble: Trouble, rows: Mapping[str, IndexRow]) -> bool:
    row = rows.get(trouble.id)
    return row is not None and row.version > trouble.version and row.reason != TombstoneReason.UNREADABLE


async def raise_kept(candidate: Candidate) -> None:
    """Add the records whose lines a rebuild could not read, before it swaps."""
    context, resource, kept = candidate.context, candidate.job.resource, candidate.progress.kept
    if kept:
        faults, known = candidate.job.dead_letters.records, await _by_identifier(context, resource)
        rows = await look_up_rows(context, candidate.index, kept)
        await _save(context, resource, _troubles(resource, {name: faults[name] for name in kept}, rows, known))


async def end_replaced(context: IndexerContext, candidates: Sequence[Candidate]) -> None:
    """Remove what a rebuild has settled, after the swap: all records of its companies but those it could not read."""
    standing = await standing_troubles(context, [candidate.job.resource for candidate in candidates])
    for candidate in candidates:
        resource, unreadable = candidate.job.resource, frozenset(candidate.progress.kept)
        covered = candidate.job.companies.coverage
        ended = [
            trouble.id
            for trouble in standing[resource]
            if trouble.id not in unreadable and (not trouble.company or covered.includes(trouble.company))
        ]
        await _save(context, resource, (), ended)


async def _by_identifier(context: IndexerContext, resource: Resource) -> dict[str, Trouble]:
    return {trouble.id: trouble for trouble in (await standing_troubles(context, [resource]))[resource]}


async def report_standing(context: IndexerContext, summary: RunSummary) -> None:
    """Add what stands on the list, and is not dismissed, to the problems of a run."""
    totals = await _write_totals(context, RESOURCES)
    total = total_troubles(totals.values())
    if total.count:
        summary.problems.append(f"{troubles_sentence(total)} See `brokerage index troubles`.")


@dataclass(frozen=True)
class ListedTrouble:
    """A trouble, and what is served of its record now."""

    trouble: Trouble
    served: Served


async def troubles(
    context: IndexerContext, resources: Sequence[Resource] = RESOURCES, company: str | None = None
) -> list[ListedTrouble]:
    """Return the list, the oldest first; raise ElasticsearchError."""
    with translate_client_errors():
        listed: list[ListedTrouble] = []
        for resource, standing in (await standing_troubles(context, resources)).items():
            found = [trouble for trouble in standing if company in {None, trouble.company}]
            live = await GenerationLifecycle(context, resource).live() if found else None
            rows = await look_up_rows(context, live, [trouble.id for trouble in found]) if live else {}
            listed += [ListedTrouble(trouble, _served(rows.get(trouble.id))) for trouble in found]
        return sorted(listed, key=lambda entry: entry.trouble.since)


def _served(row: IndexRow | None) -> Served:
    if row is None or (row.deleted and row.reason != TombstoneReason.UNREADABLE):
        return Served.NOTHING
    if row.deleted:
        return Served.WITHHELD
    return Served.OFF_MARKET if row.reason == TombstoneReason.UNREADABLE else Served.BEFORE


async def dismiss(
    context: IndexerContext, resource: Resource, identifiers: Collection[str], company: str | None = None
) -> list[str]:
    """Accept what is served of some records, with a company of its own; return those that are not on the list.

    A dismissed record stays as it is served, and counts again if its next line is wrong in another way.
    """
    with translate_client_errors():
        known, now = await _by_identifier(context, resource), now_milliseconds()
        found = {name for name in known.keys() & identifiers if company in {None, known[name].company}}
        await _save(context, resource, [structs.replace(known[name], dismissed=now) for name in found], is_mark=True)
        return sorted({*identifiers} - found)


async def withdraw(
    context: IndexerContext,
    resources: Sequence[Resource] = RESOURCES,
    company: str | None = None,
    on_wait: Callable[[str], None] = ignore_wait,
) -> dict[str, list[str]]:
    """Withdraw the records that are due, and return them by resource; raise ElasticsearchError or LockedError."""
    with translate_client_errors():
        return await withdraw_due(context, on_wait, resources, company)


async def withdraw_due(
    context: IndexerContext,
    on_wait: Callable[[str], None] = ignore_wait,
    resources: Sequence[Resource] = RESOURCES,
    company: str | None = None,
) -> dict[str, list[str]]:
    """Withdraw the records that have been on the list for BROKERAGE_TROUBLE_HOURS, and return them by resource.

    Call it without a write lock.
    """
    now, withdrawn = now_milliseconds(), dict[str, list[str]]()
    until = now - int(context.settings.trouble_hours * _HOUR_MILLISECONDS)
    for resource, standing in (await standing_troubles(context, resources)).items():
        due = [
            trouble
            for trouble in standing
            if trouble.dismissed is None
            and trouble.since <= until
            and company in {None, trouble.company}
            and _is_withdrawn(context, resource, trouble)
        ]
        if not due:
            continue
        live = await GenerationLifecycle(context, resource).live()
        # Most of them were withdrawn before, or are not on the market: no lock is needed to see that.
        if live and await _withdrawals(context, resource, live, due):
            async with open_write_session(context, resource, on_wait) as session:
                await session.lifecycle.refresh(session.live)
                documents = await _withdrawals(context, resource, session.live, due)
                sender = session.sender()
                writes = [
                    BulkWrite(document.id, version, document.stamped_source(*session.stamps.next_stamp()), document)
                    for document, version in documents
                ]
                await write_all(sender, writes)
                await session.publish()
            withdrawn[resource.alias] = sorted(document.id for document, _ in documents)
        new = [structs.replace(trouble, looked_at=now) for trouble in due if not trouble.looked_at]
        await _save(context, resource, new, is_mark=True)
    return withdrawn


async def _withdrawals(
    context: IndexerContext, resource: Resource, live: str, due: Collection[Trouble]
) -> list[tuple[PendingDocument, int]]:
    """Return what replaces those of the records that are still served as before, each with its stored version."""
    rows = await look_up_rows(context, live, [trouble.id for trouble in due])
    # A later state than the one that the trouble was about ends it, whether it is deleted from the list yet or not.
    standing = [
        trouble.id for trouble in due if _served(rows.get(trouble.id)) is Served.BEFORE and not _is_over(trouble, rows)
    ]
    withheld = {trouble.id for trouble in due if (trouble.policy or context.settings.trouble_policy) == "withhold"}
    documents = [
        (
            withdrawn_document(resource, document, rows[document.id], is_withheld=document.id in withheld),
            rows[document.id],
        )
        for document in await fetch_documents(context, live, standing)
    ]
    return [
        (document, version_over(document.version, row.stored_version))
        for document, row in documents
        if document is not None
    ]


def withdrawn_document(
    resource: Resource, stored: StoredDocument, row: IndexRow, *, is_withheld: bool
) -> PendingDocument | None:
    """Return what is served instead of a record whose newest state is not known, None if it stays as it is."""
    if is_withheld:
        moment = version_microseconds(max(row.version, 0))
        return tombstone_document(row.id, row.company, moment, TombstoneReason.UNREADABLE)
    if resource is not LISTING:
        return None
    envelope, exact = stored_envelope(resource, stored.source, row.version)
    if envelope.record.Status not in FOR_SALE_STATUSES:
        return None
    envelope.record.Status, envelope.record.OnMarket = "Other", False
    marked = Marked(TombstoneReason.UNREADABLE)
    document = document_builder(resource)(NO_LINE, envelope, row.company, exact, marked)
    parts = document.head, document.record or b""
    past, changed = remember(resource, document, parts, row, split_record(stored.source))
    return structs.replace(document, past=past, changed=changed)
