"""All that the page shows, put together: this process, its siblings and Elasticsearch."""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from service.console.figures import Figures, figures
from service.console.history import History
from service.console.resources import Held, Holdings
from service.console.siblings import Siblings
from service.console.verdict import (
    Level,
    Notice,
    Reader,
    headline,
    of_consumers,
    of_figures,
    of_findings,
    of_neighbours,
    of_resources,
)
from service.console.worker import Places, Worker, known, together

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.keys.record import ApiKey
    from service.services import Services
    from service.telemetry.consumers import Consumer, KeyUse
    from service.watch import Watch

# What the page lists of keys and consumers: those in trouble, then whoever was seen last.
_MOST_SHOWN = 100


class Use(msgspec.Struct):
    """A key and its last use."""

    seen: KeyUse
    name: str
    tier: str


class Overview(msgspec.Struct):
    """What is told under `/console/data.json`. Moments are seconds since 1970."""

    at: float
    version: str
    level: Level
    headline: str
    notices: list[Notice]
    workers: int
    away: list[int]
    resources: list[Held]
    figures: Figures
    lanes: list[Places]
    nodes: dict[str, int]
    running: int
    consumers: list[Reader]
    keys: list[Use]


class Console:
    """Makes the overview of one process; `clock` tells the seconds since 1970."""

    def __init__(self, services: Services, watch: Watch, clock: Callable[[], float] = time.time) -> None:
        """Nothing is asked yet."""
        self.history = History(services, clock)
        self.siblings = Siblings(services.settings)
        self._services = services
        self._watch = watch
        self._holdings = Holdings(services)
        self._clock = clock

    def worker(self) -> Worker:
        """Return what this process knows."""
        return known(self._services, self.history)

    async def overview(self, host: str, port: int) -> Overview:
        """Return all of it, as asked for at an address of this process; within little more than a second."""
        siblings, held = await asyncio.gather(self.siblings.ask(host, port), self._holdings.read())
        away = [port for port, worker in siblings.items() if worker is None]
        all_ = together([self.worker(), *filter(None, siblings.values())])
        now = self._clock()
        drawn = figures(all_.steps, now)
        consumers, keys = self._readers(all_, held, now), self._uses(all_)
        found = [
            *of_findings(self._watch.findings()[0]),
            *of_figures(drawn),
            *of_neighbours(all_.nodes, away),
            *of_resources(held, now),
            *of_consumers(consumers),
        ]
        notices = sorted(found, key=lambda notice: notice.level is not Level.WRONG)
        level, sentence = headline(notices)
        return Overview(
            at=now,
            version=version("brokerage"),
            level=level,
            headline=sentence,
            notices=notices,
            workers=1 + len(siblings),
            away=away,
            resources=held,
            figures=drawn,
            lanes=all_.lanes,
            nodes=all_.nodes,
            running=all_.running,
            consumers=consumers[:_MOST_SHOWN],
            keys=keys[:_MOST_SHOWN],
        )

    def _readers(self, all_: Worker, held: list[Held], now: float) -> list[Reader]:
        marks = {each.resource: each.mark for each in held}
        readers = [
            Reader(feed, self._name(feed.key_id), feed.trouble(now), _behind(feed, marks[feed.resource]))
            for feed in all_.feeds
        ]
        return sorted(readers, key=lambda reader: (not reader.trouble, -reader.seen.at))

    def _uses(self, all_: Worker) -> list[Use]:
        uses = [Use(use, self._name(use.key_id), self._tier(use.key_id)) for use in all_.uses]
        return sorted(uses, key=lambda use: (-use.seen.refused_at, -use.seen.at))

    def _key(self, key_id: str) -> ApiKey | None:
        return self._services.keys.known().get(key_id)

    def _name(self, key_id: str) -> str:
        key = self._key(key_id)
        return key_id if key is None else key.name

    def _tier(self, key_id: str) -> str:
        key = self._key(key_id)
        return "" if key is None else self._services.limiter.tier(key) or ""


def _behind(feed: Consumer, mark: float | None) -> float | None:
    """Return the seconds, None before the first whole walk. Watermarks are whole seconds, so is this."""
    return None if mark is None or feed.caught is None else max(0.0, int(mark) - feed.caught)
