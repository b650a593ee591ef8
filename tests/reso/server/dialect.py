"""In what a provider's service differs from one that follows the Data Dictionary with a set for each resource."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

_NONE: tuple[str, ...] = ()


@dataclass(frozen=True)
class RequestLimit:
    """How many requests, and how many bytes of bodies, any so many seconds may have; None: no limit."""

    seconds: float
    requests: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A provider's ways. The defaults are those of the Data Dictionary; `tests/reso/dialects` has the providers."""

    name: str = "generic"
    keys: Literal["text", "number", "prefixed"] = "text"  # number: Edm.Int64, in references too
    prefix: str = ""  # of prefixed keys and MLS ids, which also lose all but letters and digits

    system: str = ""  # written into each record as OriginatingSystemName; each collection must be filtered by it
    searchable: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by resource; absent: each field
    most_or: int | None = None  # of one $filter
    default_order: Literal["none", "key", "time"] = "none"  # of a request without $orderby

    honours_prefer: bool = True  # odata.maxpagesize is the size of a page
    top_is_page_size: bool = False  # $top is the size of a page, and a next link follows
    refuses_large_top: bool = False  # 400 for a $top above the largest page; else fewer rows are sent
    max_page_with_expand: int | None = None
    max_page_of_keys: int | None = None  # of requests that select the key alone

    embedded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # children that are members of a record
    expanded: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # children that $expand adds
    expands_with_options: bool = False  # $expand=Media($select=...)
    not_addressable: frozenset[str] = frozenset()  # entity types without a set of their own

    deletion_mark: str = ""  # a deleted record stays and has false here

    replication: Literal["none", "by id", "by path"] = "none"
    max_page_of_replication: int = 1000
    replication_links: tuple[Literal["body", "Link", "next"], ...] = ("body", "Link")  # where next links are, by path
    counts_replication: bool = True  # 400 for $count otherwise

    requires_gzip: bool = False  # 400 for clients that do not accept it
    limits: tuple[RequestLimit, ...] = ()
    says_retry_after: bool = True  # in the answers to requests above a limit

    def children_of(self, resource: str) -> tuple[str, ...]:
        """Return the children that come with a record of a resource, not from a set of their own."""
        return self.embedded.get(resource, _NONE) + self.expanded.get(resource, _NONE)
