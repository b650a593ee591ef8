"""Who reads: the last use of each key and the last page of each feed that it walks, for the operators' console.

Both books are bounded, and forget whoever was not seen for the longest time. No text of a key is in them.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from service.telemetry.observation import FeedPage, Observation

# A feed is about 400 bytes.
_MOST = 1_000
# The same page so often in a row: retries of a client that lost its connection end before that.
STUCK_REPEATS = 5
# Silence of so many usual pauses, and of so many seconds at least, is none any more.
LATE_PAUSES = 10
LATE_SECONDS = 120.0
# Who has paused less often may have come once, by hand, and is not judged; who is away for longer has left for good.
KNOWN_PAUSES = 5
_GONE_SECONDS = 24 * 3600.0
# Weight of the newest pause in the usual one.
_NEWEST = 0.25


class KeyUse(msgspec.Struct):
    """The last request of a key, and what was refused to it with 429. Moments are seconds since 1970."""

    key_id: str
    at: float = 0.0
    route: str = ""
    status: int = 0
    refused: int = 0
    refused_at: float = 0.0


class Pauses(msgspec.Struct):
    """How many pauses there were, and the usual seconds of one."""

    count: int = 0
    seconds: float = 0.0

    @property
    def are_known(self) -> bool:
        """Whether there were enough of them to expect the next."""
        return self.count >= KNOWN_PAUSES

    def add(self, seconds: float) -> None:
        """Add one: the last few weigh most."""
        self.seconds = self.seconds + _NEWEST * (seconds - self.seconds) if self.count else seconds
        self.count += 1


class Consumer(msgspec.Struct):
    """One key's walks of one company's feed. Moments are seconds since 1970.

    `after` is the cursor of the last page, `last` the one that it led to. `began` is the watermark told with the first
    page of the walk, `caught` that of the last whole walk: all that was published up to it was read.
    """

    key_id: str
    resource: str
    company: str
    at: float
    after: str | None = None
    last: str | None = None
    updated_since: int | None = None
    is_final: bool = False
    repeats: int = 0
    within: Pauses = msgspec.field(default_factory=Pauses)  # between two pages of a walk
    between: Pauses = msgspec.field(default_factory=Pauses)  # from the end of a walk to the next
    began: int | None = None
    caught: int | None = None

    def trouble(self, now: float) -> str:
        """Return what is wrong with it in words, nothing where it is well."""
        if self.repeats >= STUCK_REPEATS:
            return f"asked {self.repeats} times in a row for the same page"
        pauses, silence = self._pauses, now - self.at
        is_late = max(LATE_SECONDS, LATE_PAUSES * pauses.seconds) < silence <= _GONE_SECONDS
        if not (pauses.are_known and is_late):
            return ""
        return "has not come back for its next walk" if self.is_final else "has stopped in the middle of a walk"

    def take(self, page: FeedPage, now: float) -> None:
        """Take note of the next page."""
        if self.repeats or self.is_final:
            self._pauses.add(now - self.at)
        is_same = (self.after, self.updated_since) == (page.after, page.updated_since)
        # Who has the last page may ask for it as often as it likes: that is how changes are polled.
        self.repeats = 0 if page.is_final else self.repeats + 1 if is_same else 1
        self.at, self.after, self.last = now, page.after, page.last
        self.updated_since, self.is_final = page.updated_since, page.is_final
        if page.watermark is not None:
            self.began = page.watermark
        if page.is_final:
            self.caught = self.began

    @property
    def _pauses(self) -> Pauses:
        """Those of the kind that it is in now."""
        return self.between if self.is_final else self.within


class Consumers:
    """The books of one process; `clock` tells the seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """Begin with nobody."""
        self._clock = clock
        self.uses: OrderedDict[str, KeyUse] = OrderedDict()
        self.feeds: OrderedDict[tuple[str, str, str], Consumer] = OrderedDict()

    def add(self, seen: Observation, status: int) -> None:
        """Take note of a request that has ended, if its key was accepted."""
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
        if seen.page is not None:
            self._walk(seen.key_id, seen.page, now)
        if len(self.uses) > _MOST:
            self.uses.popitem(last=False)

    def _walk(self, key_id: str, page: FeedPage, now: float) -> None:
        name = (key_id, page.resource, page.company)
        consumer = self.feeds.get(name)
        if consumer is None:
            consumer = self.feeds[name] = Consumer(*name, now)
        self.feeds.move_to_end(name)
        consumer.take(page, now)
        if len(self.feeds) > _MOST:
            self.feeds.popitem(last=False)


def one_use(uses: Iterable[KeyUse]) -> KeyUse:
    """Return what several processes saw of one key as one."""
    seen = sorted(uses, key=lambda use: use.at)
    refused, refused_at = sum(use.refused for use in seen), max(use.refused_at for use in seen)
    return msgspec.structs.replace(seen[-1], refused=refused, refused_at=refused_at)


def one_consumer(consumers: Iterable[Consumer]) -> Consumer:
    """Return what several processes saw of one consumer as one: its requests went to any of them.

    Its pauses are the longest that one of them knows, and `caught` may be a walk behind: neither accuses too early.
    """
    seen = sorted(consumers, key=lambda consumer: consumer.at)
    newest = seen[-1]
    place = (newest.after, newest.updated_since, newest.is_final)
    return msgspec.structs.replace(
        newest,
        repeats=sum(each.repeats for each in seen if (each.after, each.updated_since, each.is_final) == place),
        within=_longest(each.within for each in seen),
        between=_longest(each.between for each in seen),
        caught=max(filter(None, (each.caught for each in seen)), default=None),
    )


def _longest(pauses: Iterable[Pauses]) -> Pauses:
    return max(pauses, key=lambda each: (each.are_known, each.seconds))
