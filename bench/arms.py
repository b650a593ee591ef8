"""The arms as data: who answers, what is asked, how deep, by how many clients, in which encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RAW: Final = "Elasticsearch, same body"
FLOOR: Final = "pass-through"
SERVICE: Final = "service"
TWO_WORKERS: Final = "service, 2 workers"
UNSORTED: Final = "textbook, unsorted"
BY_ID: Final = "textbook, sorted by id"
BY_COMPANY: Final = "textbook, sorted by company and id"
PEER: Final = "FastAPI peer"
SERVICE_CANNED: Final = "service, canned engine"
PEER_CANNED: Final = "FastAPI peer, canned engine"
TEXTBOOK: Final = (UNSORTED, BY_ID, BY_COMPANY)

# Where in the largest company a page begins, as shares of it; what is drawn lies between.
DEPTHS: Final = {
    "first": (0.0, 0.005),
    "half": (0.495, 0.505),
    "97 %": (0.96, 0.97),
    "any": (0.0, 0.95),
    "same": (0.0, 0.95),
    "few": (0.0, 0.95),
    "": (0.0, 0.0),
}


@dataclass(frozen=True)
class Arm:
    """One way to ask: its fields name it."""

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


def _at_depths(*answers: str) -> tuple[Arm, ...]:
    return tuple(Arm(each, depth=depth) for each in answers for depth in ("first", "half", "97 %"))


# One client, so that what is measured is the time of a request.
LATENCY: Final = (
    *_at_depths(RAW, FLOOR, SERVICE, *TEXTBOOK),
    Arm(RAW, "large page"),
    Arm(SERVICE, "large page"),
    Arm(RAW, "show", ""),
    Arm(SERVICE, "show", ""),
    Arm(RAW, "agents", ""),
    Arm(SERVICE, "agents", ""),
    Arm(RAW, "offices", ""),
    Arm(SERVICE, "offices", ""),
    Arm(SERVICE, "underscore_response"),
    Arm(RAW, "timestamps_only"),
    Arm(SERVICE, "timestamps_only"),
    Arm(SERVICE, encoding="gzip"),
    Arm(SERVICE, encoding="zstd"),
)

THROUGHPUT: Final = (
    *(Arm(each, depth="any", clients=8) for each in (RAW, FLOOR, SERVICE, TWO_WORKERS)),
    Arm(SERVICE, depth="any", clients=8, encoding="gzip"),
    Arm(SERVICE, depth="any", clients=8, encoding="zstd"),
    *(Arm(each, depth="97 %", clients=8) for each in (RAW, SERVICE, *TEXTBOOK)),
    Arm(SERVICE, "underscore_response", depth="any", clients=8),
    Arm(RAW, "show", "", clients=8),
    Arm(SERVICE, "show", "", clients=8),
    Arm(SERVICE, depth="same", clients=8),
)

MOST_CLIENTS = 64
# The figures by the number of clients.
CLIENTS: Final = tuple(
    Arm(each, depth="any", clients=clients) for clients in (1, 8, MOST_CLIENTS) for each in (RAW, SERVICE, TWO_WORKERS)
)

PEERS: Final = (
    Arm(PEER, depth="any", clients=8),
    Arm(SERVICE, depth="any", clients=8),
    Arm(PEER_CANNED, depth="few", clients=8),
    Arm(SERVICE_CANNED, depth="few", clients=8),
    Arm(PEER, depth="any"),
    Arm(SERVICE, depth="any"),
)

# Asked before and after records were changed.
UPDATED: Final = (
    Arm(RAW),
    Arm(SERVICE),
    Arm(SERVICE, depth="97 %"),
    Arm(RAW, depth="any", clients=8),
    Arm(SERVICE, depth="any", clients=8),
)

BEFORE: Final = "before updates"
AFTER: Final = "after updates"
GROUPS: Final = {
    "latency": LATENCY,
    "throughput": THROUGHPUT,
    "clients": CLIENTS,
    "peers": PEERS,
    BEFORE: UPDATED,
    AFTER: UPDATED,
}
WALKED: Final = (SERVICE, *TEXTBOOK)
