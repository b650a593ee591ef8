"""The second law of updates: a consumer that polls with its last watermark misses nothing.

Deletions are in no history here: a feed of changes shows no record that is gone, so a copy would keep it by design.
Volatile members stay as they are: a change of nothing else gives no new stamp, on purpose.
"""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

from indexer.generations.comparison import reconcile
from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING, Resource
from tests.indexer.conftest import Bench, assert_nothing_refused
from tests.indexer.updates.polling_consumers import PollingConsumer, ServedFeed, SourceClock, open_feed
from tests.records import envelope, identifier_of, write

Lines = list[dict[str, Any]]

SEED = 20_261_121
PRICES = (100, 200, 300)  # few, so that records come back to what they were
# Only what the indexer itself makes visible is seen.
SETTINGS: dict[str, Any] = {"refresh_interval": "10m", "bulk_documents": 10}
FIRST = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
SPAN_SECONDS = 60_000_000


def listing(name: str, price: int, seconds: float) -> dict[str, Any]:
    """Return a listing whose source time is so many seconds after FIRST."""
    moment = (FIRST + dt.timedelta(seconds=seconds)).isoformat()
    return envelope(LISTING, {"PlatformListingId": name, "ListPrice": price}, updated_at=moment)


@pytest.fixture
async def feed(bench: Bench) -> AsyncIterator[ServedFeed]:
    """The service over 100 listings, with source times spread over two years, the last of them `l99`."""
    lines = [listing(f"l{number:02}", 100, number / 100 * SPAN_SECONDS) for number in range(100)]
    assert (await bench.build({COMPANY: [envelope(COMPANY)], LISTING: lines}, **SETTINGS)).exit_code == 0
    async with open_feed(bench) as opened:
        yield opened


class Script:
    """Random updates, and the state that each record is in after all of them."""

    def __init__(self, random: Random, count: int) -> None:
        self._random = random
        self.state = {f"l{number:02}": (number / 100 * SPAN_SECONDS, 100) for number in range(100)}
        self.lines = [self._line() for _ in range(count)]

    def _line(self) -> dict[str, Any]:
        """Return a change, a touch or a new record; one in three source times is older than what is known."""
        name = self._random.choice(sorted(self.state))
        if self._random.random() < 0.15:
            name = f"n{len(self.state)}"
        seconds, price = self.state.get(name, (0.0, 100))
        moment = self._random.uniform(*((0, seconds) if self._random.random() < 0.3 else (seconds, SPAN_SECONDS)))
        given = price if self._random.random() < 0.2 else self._random.choice(PRICES)
        if name not in self.state or moment > seconds:
            self.state[name] = moment, given
        return listing(name, given, moment)

    @property
    def full(self) -> Lines:
        """Every record as it is in the end."""
        return [listing(name, price, seconds) for name, (seconds, price) in sorted(self.state.items())]


async def rebuild(bench: Bench, lines: Lines) -> None:
    """Rebuild the listings, however many are new."""
    write(bench.folder, {LISTING: lines})
    assert (await bench.build_folder([LISTING], force=True, **SETTINGS)).exit_code == 0


async def apply_all(bench: Bench, script: Script, run: int) -> None:
    """Apply the script run by run; at a third a rebuild from a source that is ahead starts, at the end another."""
    runs = [script.lines[at : at + run] for at in range(0, len(script.lines), run)]
    async with asyncio.TaskGroup() as rebuilds:
        for number, lines in enumerate(runs):
            if number == len(runs) // 3:
                rebuilds.create_task(rebuild(bench, script.full))
            assert_nothing_refused(await bench.update({LISTING: lines}, **SETTINGS))
    await rebuild(bench, script.full)


async def test_a_consumer_misses_nothing(bench: Bench, feed: ServedFeed, amount: Callable[[int, int], int]) -> None:
    """The next test shows what polling by the source's clock misses; here that would depend on timing."""
    script = Script(Random(SEED), amount(400, 10_000))  # noqa: S311 - a seeded test
    consumer = PollingConsumer(feed.since)
    writing = asyncio.create_task(apply_all(bench, script, amount(50, 200)))
    while not writing.done():
        await consumer.poll()
    await writing
    await consumer.poll()
    served = await feed.served()
    assert {name: record["ListPrice"] for name, record in served.items()} == {
        name: price for name, (_, price) in script.state.items()
    }, f"seed {SEED}"
    assert consumer.polls > 5
    assert consumer.missed(served) == set(), f"seed {SEED}"


async def test_the_clock_of_the_source_misses_what_is_changed_with_an_old_time(bench: Bench, feed: ServedFeed) -> None:
    consumer, deceived = PollingConsumer(feed.since), PollingConsumer(SourceClock(bench).since)
    assert len(await consumer.poll()) == len(await deceived.poll()) == 100
    await bench.update({LISTING: [listing("l01", 200, 0.015 * SPAN_SECONDS), listing("new", 100, 7)]})
    assert {"l01", "new"} <= await consumer.poll()
    assert await deceived.poll() == {"l99"}
    served = await feed.served()
    assert (consumer.missed(served), deceived.missed(served)) == (set(), {"l01", "new"})


async def test_touches_and_a_rebuild_of_the_same_content_flood_no_consumer(bench: Bench, feed: ServedFeed) -> None:
    consumer = PollingConsumer(feed.since)
    await bench.update({LISTING: [listing(f"l{number:02}", 200, SPAN_SECONDS) for number in range(5)]})
    assert len(await consumer.poll()) == 100
    before = await bench.served(LISTING)
    touched = [listing(name, document["record"]["ListPrice"], SPAN_SECONDS + 9) for name, document in before.items()]
    summary = await bench.update({LISTING: touched})
    assert (summary.report_for("listings").unchanged, summary.report_for("listings").indexed) == (100, 0)
    watermark = consumer.watermark
    assert await consumer.poll() <= {f"l{number:02}" for number in range(5)}
    await rebuild(bench, touched)
    consumer.watermark = watermark
    again = await consumer.poll()
    after = await bench.served(LISTING)
    assert all(after[name]["version"] > before[name]["version"] for name in before)
    assert again == {name for name, document in before.items() if document["clock"] >= watermark * 1000}
    assert again <= {f"l{number:02}" for number in range(5)}


@pytest.mark.parametrize("late", [[200], [200, 100]], ids=["up", "up-and-down"])
async def test_what_was_seen_only_while_a_rebuild_ran_is_followed_by_what_the_rebuild_brings(
    bench: Bench, feed: ServedFeed, monkeypatch: pytest.MonkeyPatch, late: list[int]
) -> None:
    """The rebuild's source has the price after it went up and down again; the updates with these changes come late."""
    consumer, seen = PollingConsumer(feed.since), list[int]()

    async def slow_reconcile(*given: Any) -> None:
        for number, price in enumerate(late):
            await bench.update({LISTING: [listing("l01", price, SPAN_SECONDS + number)]})
            if not seen:
                await consumer.poll()
                seen.append(consumer.copy["l01"]["ListPrice"])
        await reconcile(*given)

    monkeypatch.setattr("indexer.generations.comparison.reconcile", slow_reconcile)
    await rebuild(bench, [listing(f"l{number:02}", 100, SPAN_SECONDS + 9) for number in range(100)])
    assert seen == [200]
    assert await consumer.poll() >= {"l01"}
    assert consumer.missed(await feed.served()) == set()
    assert consumer.copy["l01"]["ListPrice"] == 100


@pytest.mark.parametrize("resource", [AGENT, SOLD_LISTING], ids=lambda resource: resource.alias)
async def test_the_others_with_a_watermark_miss_nothing_by_it_either(bench: Bench, resource: Resource) -> None:
    """What an update brings late, and what a rebuild does; each with a time of the source that is long past."""
    old, names = "2024-01-01T00:00:00Z", [identifier_of(resource, name) for name in ("known", "first", "second")]
    known, *late = (envelope(resource, {resource.identifier: name}) for name in names)
    first, second = (one | {"updated_at": old} for one in late)
    assert (await bench.build({COMPANY: [envelope(COMPANY)], resource: [known]}, **SETTINGS)).exit_code == 0
    async with open_feed(bench) as feed:
        consumer = PollingConsumer(feed.agents_since if resource is AGENT else feed.sold_since)
        assert await consumer.poll() == {names[0]}
        assert (await bench.update({resource: [first]}, **SETTINGS)).exit_code == 0
        assert names[1] in await consumer.poll()
        write(bench.folder, {resource: [known, first, second]})
        assert (await bench.build_folder([resource], force=True, **SETTINGS)).exit_code == 0
        assert names[2] in await consumer.poll()
        assert consumer.missed((await consumer.ask(1))[0]) == set()
