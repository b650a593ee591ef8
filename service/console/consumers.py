"""The last use of each key and its progress in each feed, for the operators' console.

Both tables are bounded and evict the least recently seen entry. They contain key ids, never keys.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from http import HTTPStatus

import msgspec

from service.telemetry.observation import FeedPage, RequestObservation

# An entry takes about 400 bytes.
_MAX_ENTRIES = 1_000
# The same page this many times in a row: a client that retries lost connections gives up earlier.
STUCK_AFTER_REPEATS = 5
# A consumer is late after this many usual pauses, and at least this many seconds.
LATE_PAUSES = 10
LATE_SECONDS = 120.0
# Consumers with fewer pauses, such as a single manual run, are not judged; after a day they count as gone.
MIN_KNOWN_PAUSES = 5
_GONE_SECONDS = 24 * 3600.0
# Weight of the latest pause in the moving average.
_PAUSE_WEIGHT = 0.25


class KeyUse(msgspec.Struct):
    """The last request of a key, and its refusals with 429. Times are in seconds since 1970."""

    key_id: str
    at: float = 0.0
    route: str = ""
    status: int = 0
    refused: int = 0
    refused_at: float = 0.0


class PauseStats(msgspec.Struct):
    """The number of pauses, and their exponential moving average in seconds."""

    count: int = 0
    seconds: float = 0.0

    @property
    def are_known(self) -> bool:
        return self.count >= MIN_KNOWN_PAUSES

    def add(self, seconds: float) -> None:
        self.seconds = self.seconds + _PAUSE_WEIGHT * (seconds - self.seconds) if self.count else seconds
        self.count += 1


class FeedConsumer(msgspec.Struct):
    """The progress of one key with one method, such as changes, in a company's data.

    `resource` may be several, separated by commas. `after` is the cursor of the last page, `last` the cursor at its
    end. `began` is the watermark reported with the first page of the current read, `caught` that of the last complete
    one: everything up to it has been read. Times are in seconds since 1970.
    """

    key_id: str
    method: str
    resource: str
    company: str
    at: float
    after: str | None = None
    last: str | None = None
    updated_since: int | None = None
    is_final: bool = False
    repeats: int = 0
    within: PauseStats = msgspec.field(default_factory=PauseStats)  # between two pages of a walk
    between: PauseStats = msgspec.field(default_factory=PauseStats)  # from the end of a walk to the next
    began: int | None = None
    caught: int | None = None

    def trouble(self, now: float) -> str:
        """Return the problem as a phrase, empty if there is none."""
        if self.repeats >= STUCK_AFTER_REPEATS:
            return f"requested the same page {self.repeats} times in a row"
        pauses, silence = self._pauses, now - self.at
        is_late = max(LATE_SECONDS, LATE_PAUSES * pauses.seconds) < silence <= _GONE_SECONDS
        if not (pauses.are_known and is_late):
            return ""
        return "did not come back for changes" if self.is_final else "stopped before the last page"

    def record_page(self, page: FeedPage, now: float) -> None:
        if self.repeats or self.is_final:
            self._pauses.add(now - self.at)
        is_same = (self.after, self.updated_since) == (page.after, page.updated_since)
        # The last page may be repeated without limit: that is how clients poll for changes.
        self.repeats = 0 if page.is_final else self.repeats + 1 if is_same else 1
        self.at, self.after, self.last = now, page.after, page.last
        self.updated_since, self.is_final = page.updated_since, page.is_final
        if page.watermark is not None:
            self.began = page.watermark
        if page.is_final:
            self.caught = self.began

    @property
    def _pauses(self) -> PauseStats:
        return self.between if self.is_final else self.within


class ConsumerRegistry:
    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Start empty; `clock` returns seconds since 1970."""
        self._clock = clock
        self.uses: OrderedDict[str, KeyUse] = OrderedDict()
        self.feeds: OrderedDict[tuple[str, str, str, str], FeedConsumer] = OrderedDict()

    def add(self, seen: RequestObservation, status: int) -> None:
        if not seen.key_id:
            return
        now = self._clock()
        use = self.uses.get(seen.key_id)
        if use is None:
            use = self.uses[seen.key_id] = KeyUse(seen.key_id)
        self.uses.move_to_end(seen.key_id)
        use.at, use.route, use.status = now, seen.route, status
        if status == HTTPStatus.TOO_MANY_REQUESTS:
            use.refused, use.refused_at = use.refused + 1, now
        if seen.page is not None and status < HTTPStatus.BAD_REQUEST:
            self._add_page(seen.key_id, seen.page, now)
        if len(self.uses) > _MAX_ENTRIES:
            self.uses.popitem(last=False)

    def _add_page(self, key_id: str, page: FeedPage, now: float) -> None:
        name = (key_id, page.method, page.resource, page.company)
        consumer = self.feeds.get(name)
        if consumer is None:
            consumer = self.feeds[name] = FeedConsumer(*name, now)
        self.feeds.move_to_end(name)
        consumer.record_page(page, now)
        if len(self.feeds) > _MAX_ENTRIES:
            self.feeds.popitem(last=False)


def merge_key_uses(uses: Iterable[KeyUse]) -> KeyUse:
    seen = sorted(uses, key=lambda use: use.at)
    refused, refused_at = sum(use.refused for use in seen), max(use.refused_at for use in seen)
    return msgspec.structs.replace(seen[-1], refused=refused, refused_at=refused_at)


def merge_consumers(consumers: Iterable[FeedConsumer]) -> FeedConsumer:
    """Merge the records of one consumer from several processes, which shared its requests.

    The pauses are the longest of any process, and `caught` may be one walk behind, so that no consumer is reported as
    late too early.
    """
    parts = sorted(consumers, key=lambda part: part.at)
    newest = parts[-1]
    return msgspec.structs.replace(
        newest,
        repeats=sum(part.repeats for part in parts if _position(part) == _position(newest)),
        within=_longest(part.within for part in parts),
        between=_longest(part.between for part in parts),
        caught=max(filter(None, (part.caught for part in parts)), default=None),
    )


def _position(consumer: FeedConsumer) -> tuple[str | None, int | None, bool]:
    return consumer.after, consumer.updated_since, consumer.is_final


def _longest(pauses: Iterable[PauseStats]) -> PauseStats:
    return max(pauses, key=lambda stats: (stats.are_known, stats.seconds))
