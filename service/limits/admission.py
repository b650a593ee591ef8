"""Admission control: limits concurrent requests, queues a few more and refuses the rest immediately.

More requests in flight than Elasticsearch can process do not raise throughput, only latency and memory use, until
deadlines expire and the work is wasted. A refusal costs about an eightieth of a page. What there is, keys share.
"""

import math
from collections.abc import Iterator
from enum import StrEnum

from service.limits.admission_lane import AdmissionLane
from service.settings import ServiceSettings

# Requests with keys that are not in memory, for the fraction of a second in which the keys are read again.
_STRANGERS = 32
# Searches for more records than this take a slot of the lane for large pages: a thousand listings are 7 MB.
LARGE_PAGE_RECORDS = 251


class RequestKind(StrEnum):
    """The kinds of requests, each with its own lane."""

    PAGE = "page"
    LARGE_PAGE = "large-page"
    SHOW = "show"
    CHANGES = "change"
    LONG_POLL = "long-poll"
    SNAPSHOT = "snapshot"
    DOWNLOAD = "download"
    STRANGER = "stranger"


class AdmissionControl:
    """The lanes of one process.

    Pages cannot block shows, which read one small record, nor large pages small ones: a worker holds each page until it
    is written, so a quarter as many large ones are made at a time. A request for changes does no work while it waits,
    and takes the slot of a page to read them, or one of the lane for long polls if it waits for changes: a change wakes
    thousands of them at once, which are served one after the other and not refused. A snapshot is a series of searches
    that takes minutes: few run at a time, and none is queued. A download is work of the kernel, for as long as a client
    reads. Strangers, whose keys are not in memory, take no slot of the others.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        """Start with all slots free."""
        patience, polls = settings.queue_seconds, settings.waiting
        large = max(1, settings.concurrency // 4)
        lanes = (
            AdmissionLane(RequestKind.PAGE, settings.concurrency, settings.queue, patience),
            AdmissionLane(RequestKind.LARGE_PAGE, large, settings.queue, patience),
            AdmissionLane(RequestKind.SHOW, settings.show_concurrency, settings.show_concurrency, patience),
            AdmissionLane(RequestKind.CHANGES, polls, 0, patience, is_held_long=True),
            AdmissionLane(RequestKind.LONG_POLL, -(-settings.concurrency // 2), polls, math.inf),
            AdmissionLane(RequestKind.SNAPSHOT, settings.snapshots, 0, patience, is_held_long=True),
            AdmissionLane(RequestKind.DOWNLOAD, settings.downloads, 0, patience, is_held_long=True),
            AdmissionLane(RequestKind.STRANGER, _STRANGERS, 0, patience),
        )
        self._lanes = {RequestKind(lane.kind): lane for lane in lanes}

    def lane(self, kind: RequestKind) -> AdmissionLane:
        """Return the lane of a kind."""
        return self._lanes[kind]

    def lanes(self) -> Iterator[AdmissionLane]:
        """Yield all lanes."""
        yield from self._lanes.values()
