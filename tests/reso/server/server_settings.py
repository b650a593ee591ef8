"""How a server behaves: in what a provider differs from the Data Dictionary, and the faults that can be injected."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


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
    member_names: Mapping[str, str] = field(
        default_factory=dict
    )  # of expanded children: by default those of the entity
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
        return self.embedded.get(resource, ()) + self.expanded.get(resource, ())

    def expanded_members(self, resource: str) -> dict[str, str]:
        """Return the children that $expand adds to a resource, by the names of their members."""
        return {self.member_names.get(child, child): child for child in self.expanded.get(resource, ())}


class ServerFault(StrEnum):
    """What can be wrong with one answer. Those from EMPTY on concern only collections that would have had rows."""

    TOO_MANY = "429, Retry-After in seconds"
    TOO_MANY_DATE = "429, Retry-After as an HTTP date"
    UNAVAILABLE = "503, Retry-After in seconds"
    BROKEN = "500 with an OData body"
    HTML = "an HTML page with status 200"
    SLOW = "the right answer, late"
    CUT = "the connection is closed in the middle of the body"
    TRUNCATED = "status 200, complete by its length, JSON that ends in the middle"
    EMPTY = "status 200, no rows, no next link, a count of 0"
    STOPS_SHORT = "status 200, half of the rows and no next link, as if these were the last"
    SHORT_PAGE = "status 200, half of the rows and a next link that continues after them: allowed by OData"


# Responses that look complete and are not.
INCOMPLETE_PAGES = (ServerFault.EMPTY, ServerFault.STOPS_SHORT, ServerFault.SHORT_PAGE)
# Those of which no reader can see it from one of them alone.
UNDETECTABLE_FAULTS = (ServerFault.EMPTY, ServerFault.STOPS_SHORT)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """A server's ways. The defaults are those of RESO's reference server, without authentication and without faults."""

    dialect: Dialect = field(default_factory=Dialect)
    root_path: str = ""  # in front of every resource, such as "/reso/odata"
    without: frozenset[str] = frozenset()  # absent from metadata and answers: "EntityEvent", "Property.PoolPrivateYN"
    withheld: frozenset[str] = frozenset()  # entities that are described, and answer 403
    seed: int = 0  # of faults, late events, gaps, drift

    default_page: int = 100
    max_page: int = 2000
    paging: Literal["skip", "token"] = "skip"  # skip: next links shift when rows vanish; token: keyset, stable
    compares_text: bool = False  # date-times in $filter are compared as text, as SQLite does
    shuffles_ties: bool = False  # rows that $orderby leaves tied come in another order with each request
    compresses: bool = False  # gzip for those who accept it

    tick_every: int = 1  # so many writes share one moment
    tick_ms: int = 1
    shows_milliseconds: bool = False  # of stamps, which are kept and compared as they were given
    drift_ms: int = 0  # each stamp lies up to so much before the clock: several machines write

    event_gap: int = 2  # up to so many sequence numbers are left out between two events
    late_share: float = 0.0  # of the events, become visible later than their row
    late_requests: int = 3  # from the N-th further request on (the very next is the first)

    token: str | None = None  # the required bearer token
    client: tuple[str, str] | None = None  # id and secret for /oauth/token; its tokens are then required
    user: tuple[str, str] | None = None  # name and password for the password grant, with the client's id and secret
    refreshes: bool = False  # each token comes with one that can be exchanged once for the next
    token_requests: int | None = None  # each token holds for so many requests
    token_seconds: int = 3600  # what is said of a token's life; it does not end by itself

    faults: Mapping[ServerFault, float] = field(default_factory=dict)  # the probability of each
    most_faults_in_a_row: int = 2  # then one request is answered well
    retry_after_seconds: int = 1
    slow_seconds: float = 0.2
