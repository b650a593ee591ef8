"""Several workers of a host as one: each console shows all, and which do not respond."""

from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from cluster.connection import ConnectionSettings
from service.console.consumers import (
    ConsumerRegistry,
    FeedConsumer,
    KeyUse,
    PauseStats,
    merge_consumers,
    merge_key_uses,
)
from service.console.history import STATUS_KIND, HistoryStep, merge_steps
from service.console.summaries import SiblingWorkers
from service.settings import ServiceSettings
from service.telemetry.observation import FeedPage, Histogram, RequestObservation, quantile
from tests.console.conftest import NOON
from tests.console.console_service import FEED, MovableClock, serve_console
from tests.internals import Internals
from tests.neighbours import neighbours
from tests.network.server import serving
from tests.service.stand_in import StandIn

_ONE = f"{FEED}&page_size=1"


@pytest.mark.usefixtures("at_once")
async def test_each_console_shows_all_workers(stand_in: StandIn, key: str) -> None:
    ports, connection = neighbours(), ConnectionSettings(url=(stand_in.url,))
    settings: dict[str, Any] = {"workers": 2, "metrics_port": ports[0]}
    async with AsyncExitStack() as stack, serve_console(connection, MovableClock(NOON), ports[0], **settings) as first:
        away = await first.data()
        assert (away["workers"], away["away"], away["headline"]) == (2, [ports[1]], "1 warning.")
        second = await stack.enter_async_context(serve_console(connection, MovableClock(NOON), ports[1], **settings))
        for worker in (first, second, second):
            await worker.get(_ONE, key)
        for reported in (await first.data(), await second.data()):
            assert (reported["workers"], reported["away"], reported["notices"]) == (2, [], [])
            assert reported["figures"]["minute"]["requests"] == 3
            assert [(limit["kind"], limit["places"]) for limit in reported["limits"]] == [
                ("page", 32),
                ("large-page", 8),
                ("show", 128),
                ("change", 10_000),
                ("long-poll", 16),
                ("snapshot", 8),
                ("download", 512),
                ("stranger", 64),
            ]
            assert [reader["seen"]["repeats"] for reader in reported["consumers"]] == [3]
            assert len(reported["keys"]) == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"[" * 99_999,
        b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 17 * 2**20,
    ],
    ids=["no HTTP", "no worker", "deep", "long"],
)
async def test_a_worker_that_answers_nothing_of_use_is_away(sent: bytes) -> None:
    ports = neighbours()
    siblings = SiblingWorkers(ServiceSettings(workers=2, metrics_port=ports[0]))
    opened = asynccontextmanager(siblings.lifespan)
    async with serving(lambda connection: connection.send(sent), port=ports[1]), opened(web.Application()):
        assert await siblings.fetch_all("127.0.0.1", ports[0]) == {ports[1]: None}


def test_steps_of_workers_are_added_by_their_numbers() -> None:
    one, other = [(STATUS_KIND, "/v1/a", "200", 2)], [(STATUS_KIND, "/v1/a", "200", 3)]
    found = merge_steps([HistoryStep(7, one), HistoryStep(8, one), HistoryStep(8, other)])
    assert found == {7: Counter({(STATUS_KIND, "/v1/a", "200"): 2}), 8: Counter({(STATUS_KIND, "/v1/a", "200"): 5})}


def test_a_consumer_of_several_workers_is_where_it_was_last() -> None:
    def seen(at: float, after: str, repeats: int, caught: int, seconds: float) -> FeedConsumer:
        pauses = PauseStats(count=9, seconds=seconds)
        return FeedConsumer(
            "k", "pages", "listings", "acme", at, after=after, repeats=repeats, caught=caught, within=pauses
        )

    found = merge_consumers([seen(3.0, "L2", 3, 10, 5.0), seen(1.0, "L1", 4, 30, 9.0), seen(2.0, "L2", 2, 20, 7.0)])
    assert (found.at, found.after, found.repeats, found.caught, found.within.seconds) == (3.0, "L2", 5, 30, 9.0)


def test_a_key_of_several_workers_has_its_last_use_and_all_refusals() -> None:
    found = merge_key_uses([KeyUse("k", 2.0, "/v1/b", 200, 1, 1.5), KeyUse("k", 1.0, "/v1/a", 429, 2, 1.0)])
    assert found == KeyUse("k", 2.0, "/v1/b", 200, 3, 1.5)


def test_the_books_are_bounded_and_forget_who_was_not_seen_for_longest(internals: Internals) -> None:
    internals(console_most_entries=2)
    consumers = ConsumerRegistry(MovableClock(NOON))
    for key_id in ("a", "b", "a", "c"):
        seen = RequestObservation()
        seen.key_id, seen.page = (
            key_id,
            FeedPage("pages", "listings", "acme", None, "L1", 1, is_final=False, watermark=None),
        )
        consumers.add(seen, 200)
    assert list(consumers.uses) == ["a", "c"]
    assert [name[0] for name in consumers.feeds] == ["a", "c"]


def test_who_has_no_key_is_not_noted() -> None:
    consumers = ConsumerRegistry(MovableClock(NOON))
    consumers.add(RequestObservation(), 401)
    assert not consumers.uses


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2.0), (1.0, 4.0), (0.25, 1.0)])
def test_a_quantile_lies_evenly_within_its_bucket(share: float, expected: float) -> None:
    spent = Histogram((2.0, 4.0))
    for value in (1.0, 1.5, 3.0, 3.5):
        spent.add(value)
    assert quantile(spent.counts, share) == expected


def test_beyond_the_last_bound_a_quantile_is_that_bound() -> None:
    spent = Histogram((2.0, 4.0))
    assert quantile(spent.counts, 0.99) is None
    spent.add(5.0)
    assert quantile(spent.counts, 0.99) == 4.0
