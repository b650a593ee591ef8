"""Coverage: the companies whose records a run replaces. Records of all other companies stay as they are."""

from dataclasses import dataclass
from typing import Any

import msgspec

from indexer.documents.identification import DECODE_ERRORS
from indexer.errors import InvalidRecordError
from indexer.reporting.report import EVERY_COMPANY_COVERED
from indexer.source.lines import Source
from mappings import RESOURCES
from mappings.stored_document import companies_query

_MAX_NAMED = 10


class _Owned(msgspec.Struct, gc=False):
    """The part of an envelope that names its company."""

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
        """Whether the records of a company are replaced."""
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
        """Return the names of the companies, ten at most."""
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


def companies_of_records(source: Source) -> set[str]:
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
