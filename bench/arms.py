"""The arms of the measurement: who responds, which question, how deep, how many clients, which encoding."""

from dataclasses import dataclass
from typing import Final

RAW: Final = "Elasticsearch, same body"
SERVICE: Final = "service"
TWO_WORKERS: Final = "service, 2 workers"

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

GROUPS: Final = {"latency": LATENCY, "throughput": THROUGHPUT, "clients": CLIENTS}
