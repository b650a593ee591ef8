"""How a server behaves: all its settings, and the faults that it can inject."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from tests.reso.server.dialect import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping


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


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """A server's ways. The defaults are those of the reference server, without authentication and without faults."""

    dialect: Dialect = field(default_factory=Dialect)
    root_path: str = ""  # in front of every resource, such as "/reso/odata"
    port: int = 0  # 0: any free one
    without: frozenset[str] = frozenset()  # absent from metadata and answers: "EntityEvent", "Property.PoolPrivateYN"
    withheld: frozenset[str] = frozenset()  # entities that are described, and answer 403
    seed: int = 0  # of faults, late and lost events, gaps, drift

    default_page: int = 100
    max_page: int = 2000
    paging: Literal["skip", "token"] = "skip"  # skip: next links shift when rows vanish; token: keyset, stable
    strict: bool = False  # unknown names in $select and $orderby: 400; else ignored
    owes_top_less_skip: bool = (
        True  # the reference server's way with $top and $skip together; else $skip does not count
    )
    compares_text: bool = False  # date-times in $filter are compared as text, as SQLite does
    shuffles_ties: bool = False  # rows that $orderby leaves tied come in another order with each request
    updates_move_rows: bool = False  # without $orderby an updated row comes last, as in PostgreSQL's heap
    compresses: bool = False  # gzip for those who accept it

    clock_start: str = "2026-03-02T08:00:00.000Z"
    tick_every: int = 1  # so many writes share one millisecond
    tick_ms: int = 1
    drift_ms: int = 0  # each stamp lies up to so much before the clock: several machines write
    wall_clock: bool = False  # stamps are the present, less the drift; start and ticks do not count

    cascades: bool = False  # deleting a Property deletes its Media and OpenHouse first

    event_gap: int = 2  # up to so many sequence numbers are left out between two events
    late_share: float = 0.0  # of the events, become visible later than their row
    late_requests: int = 3  # from the N-th further request on (the very next is the first)
    lost_share: float = 0.0  # of the events, are never written

    token: str | None = None  # the required bearer token
    client: tuple[str, str] | None = None  # id and secret for /oauth/token; its tokens are then required
    user: tuple[str, str] | None = None  # name and password for the password grant, with the client's id and secret
    refreshes: bool = False  # each token comes with one that can be exchanged once for the next
    token_requests: int | None = None  # each token holds for so many requests
    token_seconds: int = 3600  # what is said of a token's life; it does not end by itself

    rate_limit: int | None = None  # requests in a window; more get 429
    rate_window_seconds: float = 1.0

    faults: Mapping[ServerFault, float] = field(default_factory=dict)  # the probability of each
    most_faults_in_a_row: int = 2  # then one request is answered well
    retry_after_seconds: int = 1
    slow_seconds: float = 0.2
