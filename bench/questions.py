"""The arms of the measurement, and the requests of each as bytes."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlencode

from bench.client import get, post

RAW: Final = "Elasticsearch, same body"
SERVICE: Final = "service"
TWO_WORKERS: Final = "service, 2 workers"
# Peers: what others would build, or could at best.
RELAY: Final = "nginx in front of the same body"
FASTAPI: Final = "FastAPI"
POSTGRES: Final = "PostgreSQL, asyncpg"
UNSORTED: Final = "textbook index, unsorted"
BY_IDENTIFIER: Final = "textbook index, by identifier"
BY_COMPANY: Final = "textbook index, by company"
TEXTBOOKS: Final = (UNSORTED, BY_IDENTIFIER, BY_COMPANY)
# Processes that take part in every answer.
ENGINE: Final = "Elasticsearch"
DATABASE: Final = "PostgreSQL"
CLIENT: Final = "client"
INDEXER: Final = "indexer"

COMPANY: Final = "summit-crest"
ROOT: Final = "/v1"
# Marks the cursor in the bytes of a request, and is as long as any cursor that replaces it.
SENTINEL: Final = "5eed5eed"
# Where in the largest company a page begins, as shares of it; cursors are drawn from within.
DEPTHS: Final = {
    "first": (0.0, 0.005),
    "half": (0.495, 0.505),
    "97 %": (0.96, 0.97),
    "any": (0.0, 0.95),
    "same": (0.0, 0.95),
    "": (0.0, 0.0),
}


@dataclass(frozen=True)
class Arm:
    """One kind of request to one server; its fields name it."""

    answers: str
    question: str = "page"
    depth: str = "first"
    clients: int = 1
    encoding: str = "identity"

    @property
    def name(self) -> str:
        """The arm in a few words; unique within a group."""
        parts = [self.answers, self.question, self.depth and f"at {self.depth}", f"{self.clients} clients"]
        return ", ".join(filter(None, [*parts, "" if self.encoding == "identity" else self.encoding]))


# One client, so that the time of a request is measured.
LATENCY: Final = (
    *(Arm(each, depth=depth) for each in (RAW, SERVICE) for depth in ("first", "half", "97 %")),
    *(Arm(each, question) for question in ("large page", "timestamps_only") for each in (RAW, SERVICE)),
    *(Arm(each, question, "") for question in ("show", "agents", "offices") for each in (RAW, SERVICE)),
    Arm(SERVICE, "underscore_response"),
    Arm(SERVICE, "Property"),
    Arm(SERVICE, encoding="gzip"),
    Arm(SERVICE, encoding="zstd"),
)

THROUGHPUT: Final = (
    *(Arm(each, depth="any", clients=8) for each in (RAW, SERVICE, TWO_WORKERS)),
    Arm(SERVICE, depth="any", clients=8, encoding="gzip"),
    Arm(SERVICE, depth="any", clients=8, encoding="zstd"),
    *(Arm(each, depth="97 %", clients=8) for each in (RAW, SERVICE)),
    Arm(SERVICE, "underscore_response", depth="any", clients=8),
    *(Arm(each, "show", "", clients=8) for each in (RAW, SERVICE)),
    Arm(SERVICE, depth="same", clients=8),
)

MOST_CLIENTS = 64
CLIENTS: Final = tuple(
    Arm(each, depth="any", clients=clients) for clients in (1, 8, MOST_CLIENTS) for each in (RAW, SERVICE, TWO_WORKERS)
)

_FEEDS = (RAW, RELAY, SERVICE, FASTAPI, POSTGRES)
PEERS: Final = (
    *(Arm(each, depth="any", clients=8) for each in (*_FEEDS, *TEXTBOOKS)),
    *(Arm(each, depth="97 %", clients=8) for each in (SERVICE, POSTGRES, *TEXTBOOKS)),
    *(Arm(each) for each in _FEEDS),
    *(Arm(each, "show", "", clients=8) for each in _FEEDS),
)

GROUPS: Final = {"latency": LATENCY, "throughput": THROUGHPUT, "clients": CLIENTS, "peers": PEERS}


def store_of(answers: str) -> str:
    """Return the store behind who answers."""
    return DATABASE if answers == POSTGRES else ENGINE


@dataclass(frozen=True)
class Question:
    """A path and its parameters; `{page}` and `{large}` are the sizes of pages, `resource` is what is searched."""

    path: str
    parameters: dict[str, str]
    resource: str = "listings"


_FEED = {
    "platform_company_id": COMPANY,
    "market_status": "all",
    "updated_since": "1",
    "page_size": "{page}",
    "last_platform_listing_id": SENTINEL,
}
QUESTIONS: Final = {
    "page": Question("/listings", _FEED),
    "large page": Question("/listings", _FEED | {"page_size": "{large}"}),
    "underscore_response": Question("/listings", _FEED | {"underscore_response": "true"}),
    "timestamps_only": Question("/listings", _FEED | {"timestamps_only": "true"}),
    # The key reads the same company alone.
    "Property": Question("/reso/Property", {"$top": "{page}", "$filter": f"ListingKey gt '{SENTINEL}'"}),
    "show": Question("/listings/{id}", {}),
    "agents": Question("/agents", {"platform_company_id": COMPANY, "updated_since": "1"}, "agents"),
    "offices": Question("/offices", {"platform_company_id": COMPANY}, "offices"),
}


class Absent(Exception):
    """An arm that cannot be measured here; the message says why."""


@dataclass(frozen=True)
class Heard:
    """A request of the service to Elasticsearch: its path with its query, and its body."""

    method: str
    target: str
    body: bytes


@dataclass(frozen=True)
class Template:
    """The bytes of a request to a server, in which cursor or identifier change from one request to the next."""

    server: str
    request: bytes
    encoding: str
    depth: str
    known: Sequence[bytes] = ()  # identifiers of a show, the first of which is in the request
    records: int = 0  # listings that an answer holds at least

    def requests(self, seed: str, count: int) -> list[bytes]:
        """Return `count` requests; the same seed asks every arm of a depth for the same."""
        chance = random.Random(f"{seed} {self.depth}")  # noqa: S311 - no secret
        if self.known:
            return [self.request.replace(self.known[0], choice) for choice in chance.choices(self.known, k=count)]
        low, high = DEPTHS[self.depth]
        cursors = [cursor(chance.uniform(low, high)) for _ in range(count)]
        return [self.request.replace(SENTINEL.encode(), each) for each in cursors]


def cursor(share: float) -> bytes:
    """Return a cursor behind this share of a company: identifiers are random UUIDs, so their first digits suffice."""
    return b"%08x" % min(0xFFFFFFFF, int(share * 0x100000000))


@dataclass(frozen=True)
class Templates:
    """Makes templates. `servers` are addresses by who answers.

    `heard` are requests to Elasticsearch, by who answers and by the question; all others are asked by HTTP as partners
    do. `missing` has the reason why somebody does not answer here.
    """

    servers: Mapping[str, str]
    heard: Mapping[str, Mapping[str, Heard]]
    key: str
    identifiers: Sequence[str]
    page: int
    large_page: int
    missing: Mapping[str, str] = field(default_factory=dict)

    def of(self, arm: Arm) -> Template:
        """Return the template of an arm; raise Absent if no server can respond to it."""
        if arm.answers not in self.servers:
            raise Absent(self.missing.get(arm.answers, f"{arm.answers} does not run here"))
        server = self.servers[arm.answers]
        if arm.answers not in self.heard:
            request = get(server, self.target(arm.question), {"x-api-key": self.key, "Accept-Encoding": arm.encoding})
        elif (asked := self.heard[arm.answers].get(arm.question)) is None:
            raise Absent("the service does not ask this in one request")
        else:
            request = post(server, asked.target, asked.body) if asked.body else get(server, asked.target)
        known = [identifier.encode() for identifier in self.identifiers] if arm.question == "show" else []
        records = {"page": self.page, "large page": self.large_page}.get(arm.question, 0)
        return Template(server, request, arm.encoding, arm.depth, known, records)

    def target(self, question: str) -> str:
        """Return the path and query of a question to the service."""
        asked, sizes = QUESTIONS[question], {"page": self.page, "large": self.large_page}
        query = urlencode({name: value.format_map(sizes) for name, value in asked.parameters.items()})
        return ROOT + asked.path.format(id=quote(self.identifiers[0])) + (f"?{query}" if query else "")
