"""Names of agents and offices, and time zones of offices, that listings have where their source lacks them.

A listing refers to its agents and its office. Where its source leaves out their names, it is loaded with those that
agents and offices have, of its own company alone: a key of one company could not read the others. The time zone of its
open houses is that of its office, too. The document says
which names its source lacks, so the source's own name counts as soon as there is one. Its version is that of what the
source says, so its order among other states does not depend on names.

When agents or offices change, or a generation is swapped in, `carry_names` gives the listings in question their present
names, as an update like any other. A document of the control index says how far that has come.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
from elasticsearch import NotFoundError

from indexer.bulk import AdaptiveLimit
from indexer.changes.update_writer import UpdateWriter
from indexer.documents.builder import NO_LINE, Marked, PendingDocument, document_builder, stored_envelope
from indexer.documents.normalizer import Gap, fill_gap, gap_value
from indexer.lock import ignore_wait
from indexer.scan import StoredDocument, fetch_documents, scan_documents, scan_rows
from indexer.settings import IndexerContext
from mappings import LISTING, Resource
from mappings.listing import TIME_ZONE
from mappings.open_houses import find_time_zone
from mappings.stored_document import lacking_members, split_document_id

# Each of some 100 bytes.
_MAX_REMEMBERED = 200_000
# The most listings that one run writes again because of names; the next one goes on.
MAX_CARRIED = 100_000

NAME_TARGETS = tuple(sorted({name.target for name in LISTING.filled}))


class _NamedRecord(msgspec.Struct, gc=False):
    name: Any = None
    first_name: Any = None
    last_name: Any = None
    timezone: Any = None


class _Holder(msgspec.Struct, gc=False):
    id: str
    company: str
    record: _NamedRecord = msgspec.field(default_factory=_NamedRecord)  # a tombstone has none


_decode_holder = msgspec.json.Decoder(_Holder).decode


def name_in(record: Any) -> str | None:
    """Return the full name of an agent, or that of an office; None if there is none."""
    name, parts = record.name, [getattr(record, part, None) for part in ("first_name", "last_name")]
    if not _is_name(name) and all(map(_is_name, parts)):
        name = " ".join(str(part).strip() for part in parts)
    return name.strip() if _is_name(name) else None


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


async def _nothing() -> None:
    """Do nothing: everything is visible."""


def zone_in(record: Any) -> str | None:
    """Return the time zone of an office, None if it has none that is known."""
    zone = record.timezone
    return zone if isinstance(zone, str) and find_time_zone(zone) is not None else None


class _Known(NamedTuple):
    """What a record has that others lack, and its company."""

    company: str = ""
    name: str | None = None
    zone: str | None = None


_NOBODY = _Known()


@dataclass
class Names:
    """The names that a run has looked up, in the candidates that it has built, `built`, and otherwise in what is live.

    `before_look_up` is awaited before each request.
    """

    context: IndexerContext
    built: Mapping[str, str] = field(default_factory=dict)
    before_look_up: Callable[[], Awaitable[None]] = _nothing
    _known: dict[tuple[str, str], _Known] = field(default_factory=dict)

    def forget(self) -> None:
        """Look all names up again: agents or offices may have changed."""
        self._known.clear()

    async def fill(self, documents: Iterable[PendingDocument]) -> list[PendingDocument]:
        """Return the documents with the names that their source lacks, as far as they are known."""
        given = [*documents]
        gaps = [gap for document in given for gap in document.gaps]
        if not gaps:
            return given
        await self.look_up(gaps)
        return [
            document.named(names)
            if document.named is not None and (names := self.of(document.company, document.gaps))
            else document
            for document in given
        ]

    async def look_up(self, gaps: Iterable[Gap]) -> None:
        """Find what some gaps need. Chunks are written at once: only what was found is known to the others."""
        needed = {(gap.target, gap.key) for gap in gaps}
        held = {key: self._known[key] for key in needed & self._known.keys()}
        if not (wanted := needed - held.keys()):
            return
        await self.before_look_up()
        found = dict.fromkeys(wanted, _NOBODY)
        for target in NAME_TARGETS:
            for document in await self._fetched(target, sorted(key for of, key in wanted if of == target)):
                holder = _decode_holder(document.source)
                found[target, holder.id] = _Known(holder.company, name_in(holder.record), zone_in(holder.record))
        if len(self._known) + len(found) > _MAX_REMEMBERED:
            self.forget()
        self._known |= held | found

    async def _fetched(self, target: str, keys: Sequence[str]) -> list[StoredDocument]:
        index = self.built.get(target, self.context.connection.prefix + target)
        try:
            return await fetch_documents(self.context, index, keys)
        except NotFoundError:
            return []  # there are none yet

    def of(self, company: str, gaps: Iterable[Gap]) -> dict[str, str]:
        """Return the names of some gaps that were looked up, by member."""
        known = {gap.member: self._known.get((gap.target, gap.key), _NOBODY) for gap in gaps}
        own = {member: found for member, found in known.items() if found.company == company}
        values = {member: found.zone if member == TIME_ZONE else found.name for member, found in own.items()}
        return {member: value for member, value in values.items() if value is not None}


class Reached(msgspec.Struct, frozen=True):
    """How far the names of a resource's listings are those of agents and offices.

    `basis` names the generation of the listings and the epochs of all, `sequences` are those of the last changes of
    agents and offices that have reached them.
    """

    basis: str = ""
    sequences: dict[str, int] = {}

    def at_most(self, since: Mapping[str, int]) -> "Reached":
        """Return the state that is not ahead of `since`."""
        reached = {target: min(sequence, since.get(target, 0)) for target, sequence in self.sequences.items()}
        return Reached(self.basis, reached)


# Live records whose source lacks names; a few others, which are off the market, have a reason, too.
_LACKING: list[dict[str, Any]] = [{"term": {"deleted": False}}, {"exists": {"field": "reason"}}]

LACKING_QUERY = {"bool": {"filter": _LACKING}}


@dataclass(frozen=True)
class Carried:
    """How many listings were given other names, and whether that was all."""

    resource: Resource
    count: int
    is_complete: bool

    def __str__(self) -> str:
        """Return it in a sentence without a full stop."""
        subject = self.resource.alias
        more = "" if self.is_complete else f". More {subject} wait for theirs: the next reindex or update goes on"
        return f"{self.count:,} {subject} have new names of agents and offices, which their source lacks{more}"


async def carry_names(context: IndexerContext, resource: Resource, known: Reached, present: Reached) -> Carried:
    """Give listings the present names of the agents and offices that have changed between two states.

    If the states do not continue each other, all listings are looked at. Call it without a write lock.
    """
    names = Names(context)
    writer = UpdateWriter(context, resource, AdaptiveLimit(context.settings), ignore_wait)
    count, is_complete = 0, True
    try:
        async with aclosing(_lacking(context, resource, known, present)) as pages:
            async for page in pages:
                changed = await _renamed(names, resource, page)
                if changed:
                    count += (await writer.apply({document.id: document for document in changed})).indexed
                if count >= MAX_CARRIED:
                    is_complete = False
                    break
        await writer.publish()
    finally:
        await writer.release()
    return Carried(resource, count, is_complete)


async def _lacking(
    context: IndexerContext, resource: Resource, known: Reached, present: Reached
) -> AsyncGenerator[list[StoredDocument], None]:
    """Yield the live listings that lack names of what has changed, in pages."""
    index = context.connection.alias(resource)
    if known.basis != present.basis:
        async for page in scan_documents(context, index, query=LACKING_QUERY, order="feed_key"):
            yield page
        return
    for target, sequence in present.sequences.items():
        after = known.sequences.get(target, 0)
        if sequence <= after:
            continue
        fields = [declared.name for declared in resource.search_fields if declared.refers_to == target]
        changes = {"range": {"sequence": {"gt": after}}}
        async for rows in scan_rows(context, context.connection.prefix + target, query=changes):
            keys = [split_document_id(row.id)[1] for row in rows]
            referring = {"bool": {"should": [{"terms": {name: keys}} for name in fields]}}
            query = {"bool": {"filter": [*_LACKING, referring]}}
            async for page in scan_documents(context, index, query=query, order="feed_key"):
                yield page


async def _renamed(names: Names, resource: Resource, page: list[StoredDocument]) -> list[PendingDocument]:
    """Return those of the stored documents that have other names now."""
    lacking = [stored for document in page if (stored := _StoredListing.of(resource, document)).gaps]
    await names.look_up(gap for stored in lacking for gap in stored.gaps)
    return [document for stored in lacking if (document := stored.renamed(resource, names)) is not None]


class _Head(msgspec.Struct, gc=False):
    company: str
    version: int
    reason: str | None = None


_decode_head = msgspec.json.Decoder(_Head).decode


@dataclass(frozen=True)
class _StoredListing:
    """A stored document and the names that its source lacks."""

    head: _Head
    envelope: Any
    exact: dict[str, float]
    gaps: tuple[Gap, ...]

    @classmethod
    def of(cls, resource: Resource, document: StoredDocument) -> "_StoredListing":
        head = _decode_head(document.source)
        envelope, exact = stored_envelope(resource, document.source, head.version)
        members = lacking_members(head.reason)
        gaps = [
            Gap(member, target, getattr(envelope.record, reference))
            for member, reference, target in resource.filled
            if member in members
        ]
        return cls(head, envelope, exact, tuple(gaps))

    def renamed(self, resource: Resource, names: Names) -> PendingDocument | None:
        """Return the document with its present names, None if it has them."""
        head, envelope = self.head, self.envelope
        present = names.of(head.company, self.gaps)
        if all(gap_value(envelope, gap.member) == present.get(gap.member) for gap in self.gaps):
            return None
        for gap in self.gaps:
            fill_gap(envelope, gap.member, present.get(gap.member))
        build = document_builder(resource)
        return build(NO_LINE, envelope, head.company, self.exact, Marked(head.reason, head.version))
