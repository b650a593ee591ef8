"""The known companies, by key and by the numeric ids that are aliases of keys, and those that a run covers.

The records of the covered companies are replaced. Records of all other companies stay as they are.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import msgspec

from indexer.documents.envelope import DECODE_ERRORS, CredibleTimes, EnvelopeDecoder, identifier_decoder, identifiers_of
from indexer.errors import InvalidRecordError, SourceError
from indexer.reporting.report import EVERY_COMPANY_COVERED, listed
from indexer.settings import IndexerContext, IndexerSettings
from indexer.source.lines import RejectedLine, Source, SourceLine
from mappings import COMPANY, RESOURCES
from mappings.stored_document import companies_query

_MAX_NAMED = 10


class _Owned(msgspec.Struct, gc=False):
    platform_company_id: str | None = None


_decode = msgspec.json.Decoder(_Owned).decode


@dataclass(frozen=True)
class CoverageRequest:
    """What a run is asked to cover: the named companies, by key or numeric id, or all of them.

    Without either, the source decides: by the companies that it declares, or else by those that it holds.
    """

    companies: tuple[str, ...] = ()
    is_all: bool = False


@dataclass(frozen=True)
class Coverage:
    """The keys of the companies that a run replaces; None means all."""

    companies: frozenset[str] | None = None

    def includes(self, company: str) -> bool:
        return self.companies is None or company in self.companies

    @property
    def query(self) -> dict[str, Any]:
        """The query for the documents of the companies, tombstones included."""
        return {"match_all": {}} if self.companies is None else companies_query(self.companies)

    @property
    def others_query(self) -> dict[str, Any]:
        """The query for the live records of all other companies."""
        return {"bool": {"filter": [{"term": {"deleted": False}}], "must_not": [self.query]}}

    def require(self, company: str, field: str) -> None:
        """Raise InvalidRecordError at `field` if the company is not covered."""
        if not self.includes(company):
            raise InvalidRecordError(
                field,
                f"{company} is not among the companies that this run covers ({self}): "
                f"cover it too, with --company {company}, or correct the line",
            )

    def __str__(self) -> str:
        if self.companies is None:
            return EVERY_COMPANY_COVERED
        names = sorted(self.companies)
        more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
        return f"{', '.join(names[:_MAX_NAMED])}{more}" if names else "none"


BY_SOURCE = CoverageRequest()
EVERY_COMPANY = CoverageRequest(is_all=True)
ALL_COMPANIES = Coverage()


def declared_companies(source: Source) -> tuple[str, ...]:
    """Return the companies that the source itself declares, by key or numeric id; none if it declares nothing."""
    return tuple(getattr(source, "companies", None) or ())


def new_company_advice(key: str) -> str:
    """Return how a source defines a company that is not live, as a sentence."""
    return (
        f'If {key} is new, define it in the source: in a column map as [company] with platform_company_id = "{key}" '
        'and name = "…", in a folder in companies.ndjson.'
    )


def _companies_of_records(source: Source) -> set[str]:
    """Return the companies that the lines of a source name, by key or numeric id; unreadable lines name none."""
    found = set[str]()
    for resource in [resource for resource in RESOURCES if source.has(resource)]:
        with source.open(resource) as reading:
            for line in reading.accepted_lines:
                try:
                    owner = _decode(line.data).platform_company_id
                except DECODE_ERRORS:
                    continue
                if owner is not None:
                    found.add(owner)
    return found


_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NUMERIC_ID = re.compile(r"[0-9]{1,64}")
_PAGE_SIZE = 1000
_DEFAULTS = IndexerSettings()


@dataclass
class Companies:
    """The companies by key and by numeric id. The first company that claims a numeric id keeps it."""

    keys: set[str] = field(default_factory=set)
    keys_by_numeric_id: dict[str, str] = field(default_factory=dict)
    # All keys in the source, rejected companies included: none may be the numeric id of another company.
    reserved_keys: frozenset[str] = frozenset()
    # Keys in invalid lines of the source, and in no valid one: if these companies are live, they stay.
    unreadable: frozenset[str] = frozenset()
    # Those whose records a run replaces.
    coverage: Coverage = ALL_COMPANIES

    def key_of(self, identifier: str) -> str | None:
        """Return the key of the company with this key or numeric id, None if there is none."""
        return identifier if identifier in self.keys else self.keys_by_numeric_id.get(identifier)

    def add(self, key: str, numeric_id: str | None) -> None:
        self.keys.add(key)
        if numeric_id is not None:
            self.keys_by_numeric_id.setdefault(numeric_id, key)

    def adopt_unreadable(self, live: Companies) -> None:
        numeric_ids = {key: numeric_id for numeric_id, key in live.keys_by_numeric_id.items()}
        for key in self.unreadable & live.keys:
            self.add(key, numeric_ids.get(key))

    def without(self, keys: Collection[str]) -> Companies:
        numbers = {number: key for number, key in self.keys_by_numeric_id.items() if key not in keys}
        return Companies(self.keys - set(keys), numbers)

    async def reload(self, context: IndexerContext) -> None:
        """Replace the companies, in place, by those of the live index."""
        live = await companies_from_index(context)
        self.keys, self.keys_by_numeric_id = live.keys, live.keys_by_numeric_id

    def validate(self, record: Any) -> None:
        """Raise InvalidRecordError if the key or numeric id is malformed or belongs to another company."""
        key, numeric_id = record.platform_company_id, record.numeric_id
        if not _KEY.fullmatch(key):
            raise InvalidRecordError(
                "record.platform_company_id", "must be 1 to 64 letters, digits, underscores or hyphens"
            )
        if (owner := self.keys_by_numeric_id.get(key, key)) != key and not self.coverage.includes(owner):
            raise InvalidRecordError("record.platform_company_id", f"{key} already identifies the company {owner}")
        if numeric_id is None:
            return
        if not _NUMERIC_ID.fullmatch(numeric_id):
            raise InvalidRecordError("record.numeric_id", "must be digits only")
        owner = numeric_id if numeric_id in self.reserved_keys else self.keys_by_numeric_id.get(numeric_id, key)
        if owner != key:
            raise InvalidRecordError("record.numeric_id", f"{numeric_id} already identifies the company {owner}")

    def company_of(self, envelope: Any) -> str:
        """Return the key of the envelope's company; a deletion may name a company that no longer exists."""
        given = envelope.platform_company_id
        if given is None:
            raise InvalidRecordError("platform_company_id", "is missing")
        key = self.key_of(given)
        if key is None and envelope.deleted and _KEY.fullmatch(given):
            return str(given)
        if key is None:
            raise InvalidRecordError(
                "platform_company_id", f"{given!r} is not a company in the source or the live index"
            )
        return key


async def known_companies(context: IndexerContext, source: Source, request: CoverageRequest = BY_SOURCE) -> Companies:
    """Return the companies that records of a source may belong to, and which of them it covers.

    They are its own, or the live ones if it has none, and all live companies that it does not cover. Live companies
    whose lines are invalid count too, since they stay. Raises SourceError for a company that does not exist.
    """
    live = await companies_from_index(context)
    return await asyncio.to_thread(companies_from_source, source, context.settings, live, request)


def companies_from_source(
    source: Source,
    settings: IndexerSettings = _DEFAULTS,
    live: Companies | None = None,
    request: CoverageRequest = BY_SOURCE,
) -> Companies:
    """Return the same as `known_companies`, given the live companies; without these, as of a first build."""
    live = live or Companies()
    if not source.has(COMPANY):
        return replace(live, coverage=_coverage(source, live, request, None))
    newest, unreadable = _newest(source, CredibleTimes(COMPANY, settings.future_seconds))
    records = [envelope.record for envelope in newest.values() if not envelope.deleted]
    named = Companies(set(live.keys), dict(live.keys_by_numeric_id))
    for record in records:
        named.add(record.platform_company_id, record.numeric_id)
    coverage = _coverage(source, named, request, newest.keys() | unreadable)
    others = live.without(live.keys if coverage.companies is None else coverage.companies)
    companies = _valid_companies(records, others, coverage, unreadable)
    companies.adopt_unreadable(live)
    return companies


def named_coverage(source: Source, known: Companies, request: CoverageRequest) -> Coverage:
    """Return what an update covers: the companies that the request or the source names, or all."""
    names = request.companies or declared_companies(source)
    return Coverage(frozenset(known.key_of(name) or name for name in names)) if names else ALL_COMPANIES


def _coverage(source: Source, known: Companies, request: CoverageRequest, held: Collection[str] | None) -> Coverage:
    """Return what a run covers; `held` are the companies of the source's own list, None if it has none."""
    if request.is_all:
        return ALL_COMPANIES
    declared = declared_companies(source)
    if named := request.companies or declared:
        hint = "--company" if request.companies else "companies"
        return Coverage(frozenset(_existing_key(known, name, hint) for name in named))
    if held is not None:
        return Coverage(frozenset(held))
    names = sorted(_companies_of_records(source))
    keys = frozenset(key for name in names if (key := known.key_of(name)) is not None)
    if names and not keys:
        raise SourceError(
            f"The records are of {listed(names, len(names))}, which is no company in the source or the live index. "
            f"{new_company_advice(names[0])}"
        )
    return Coverage(keys)


def _existing_key(known: Companies, name: str, hint: str) -> str:
    key = known.key_of(name)
    if key is None:
        raise SourceError(
            f"{hint}: {name} is not a company in the source or the live index: correct it. {new_company_advice(name)}"
        )
    return key


def _valid_companies(
    records: Sequence[Any], others: Companies, coverage: Coverage, unreadable: Collection[str]
) -> Companies:
    """Return the companies of valid records, next to `others`, whose keys and numeric ids are taken."""
    invalid, reserved = set(unreadable), frozenset(record.platform_company_id for record in records) | others.keys
    companies = replace(others, reserved_keys=reserved, coverage=coverage)
    for record in records:
        try:
            companies.validate(record)
        except InvalidRecordError:
            invalid.add(record.platform_company_id)
        else:
            companies.add(record.platform_company_id, record.numeric_id)
    companies.unreadable = frozenset(invalid)
    return companies


def _newest(source: Source, times: CredibleTimes) -> tuple[dict[str, Any], set[str]]:
    """Return the newest envelope of each company, and the keys in invalid lines alone, which the build reports."""
    decode, decode_identifier = EnvelopeDecoder(COMPANY), identifier_decoder(COMPANY)
    newest, unreadable = dict[str, Any](), set[str]()
    with source.open(COMPANY) as stream:
        for line in stream.lines:
            try:
                envelope = _valid_envelope(line, decode, times)
            except InvalidRecordError:
                unreadable |= identifiers_of(decode_identifier, line.data, COMPANY) or set()
            else:
                key = envelope.record.platform_company_id
                newest[key] = max(newest.get(key, envelope), envelope, key=attrgetter("updated_at"))
    return newest, unreadable - newest.keys()


def _valid_envelope(line: SourceLine | RejectedLine, decode: EnvelopeDecoder, times: CredibleTimes) -> Any:
    """Return the envelope of a line; raise InvalidRecordError."""
    if isinstance(line, RejectedLine):
        raise line.error
    envelope = decode(line.data)
    times.check(envelope)
    return envelope


async def companies_from_index(context: IndexerContext) -> Companies:
    """Read the live companies; there are none before the first build."""
    companies, after = Companies(), ""
    while True:
        page = await context.cluster.search_completely(
            context.connection.alias(COMPANY),
            ignore_unavailable=True,
            query={"bool": {"filter": [{"range": {"feed_key": {"gt": after}}}, {"term": {"deleted": False}}]}},
            sort=["feed_key"],
            size=_PAGE_SIZE,
        )
        hits = page["hits"]["hits"]
        for record in (hit["_source"]["record"] for hit in hits):
            companies.add(record["platform_company_id"], record["numeric_id"])
        if len(hits) < _PAGE_SIZE:
            return companies
        after = hits[-1]["sort"][0]
