"""What is noted of one request on its way through the service, for metrics, logs and traces.

Nothing of it but the page is text that a client chose: a route is a template, a key its public id.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

from service.layers import Layer

if TYPE_CHECKING:
    from service.layers import Laps

# For what has no route, no key or no tier.
NONE = "none"


class FeedPage(msgspec.Struct, frozen=True):
    """One page of a walk: behind the cursor `after`, up to `last`; a first page has the `watermark` told with it."""

    resource: str
    company: str
    after: str | None
    last: str | None
    updated_since: int | None
    is_final: bool
    watermark: int | None


class Observation:
    """Notes on one request: made when it comes, written to by each step, read once it has ended."""

    __slots__ = (
        "answered_at",
        "began",
        "is_shared",
        "key_id",
        "laps",
        "page",
        "request_id",
        "route",
        "rows",
        "sent_bytes",
        "tier",
        "trace_id",
    )

    def __init__(self, request_id: str = "") -> None:
        """Begin now. `request_id` is empty where the request was refused before it had one."""
        self.request_id = request_id
        self.route = NONE  # template of the path
        self.key_id = ""  # the public id of the key, once that was accepted
        self.tier = NONE  # the rate tier of the key, if the settings know it
        self.rows = 0  # records in the answer
        self.sent_bytes = 0  # of an answer whose length was not known before
        self.is_shared = False  # whether it waited for a search that another request had begun
        self.page: FeedPage | None = None  # what of a feed was answered; for the console, in no label and no line
        self.laps: Laps | None = None
        self.trace_id = ""
        self.began = time.perf_counter()
        self.answered_at = 0.0  # when the answer was ready to be sent

    @property
    def upstream_seconds(self) -> float | None:
        """Seconds that this request waited for searches; None where none has ended."""
        return None if self.laps is None else self.laps.seconds.get(Layer.ELASTICSEARCH)


# The request that is worked on. aiohttp gives each request a context of its own, so that nothing has to be reset.
OBSERVED: ContextVar[Observation] = ContextVar("observed request")
