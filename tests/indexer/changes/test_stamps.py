"""The two clocks: the source's in a first build, the indexer's for everything new or changed later."""

import time
from typing import Any, cast

from msgspec.structs import replace

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark, publish_mark
from indexer.changes.stamps import LiveStamps, expired_tombstones, is_expired_tombstone
from indexer.scan import IndexRow
from indexer.settings import IndexerContext, IndexerSettings
from mappings import LISTING, TEAM
from tests.indexer.conftest import Bench
from tests.records import deletion, envelope


def present() -> int:
    """Return the time in milliseconds."""
    return int(time.time() * 1000)


async def test_a_first_build_takes_the_sources_times_capped_at_now(bench: Bench) -> None:
    before = present()
    later = envelope(TEAM, {"uuid": "later"}, updated_at="2101-01-01T00:00:00Z")
    await bench.build({TEAM: [envelope(TEAM), later]}, future_seconds=1e10)
    served = await bench.served(TEAM)
    assert served["team-1"]["clock"] == 1_767_323_045_678
    assert before <= served["later"]["clock"] <= present()
    mark = await bench.mark(TEAM)
    assert (mark.sequence, mark.epoch) == (2, 0)
    assert before <= served["later"]["clock"] <= mark.clock <= present()
    assert mark.generation == bench.connection.prefix + "teams-v0001"


async def test_a_rebuild_keeps_the_stamps_of_the_unchanged_and_stamps_the_rest_above_the_mark(bench: Bench) -> None:
    names = ("same", "touched", "changed", "moved", "deleted", "gone")
    await bench.build({TEAM: [envelope(TEAM, {"uuid": name}) for name in names] + [deletion(TEAM, "dead")]})
    before, mark = await bench.served(TEAM), await bench.mark(TEAM)
    await bench.build(
        {
            TEAM: [
                envelope(TEAM, {"uuid": "same"}),
                envelope(TEAM, {"uuid": "touched"}, updated_at="2026-02-02T00:00:00Z"),
                envelope(TEAM, {"uuid": "changed", "name": "new"}),
                envelope(TEAM, {"uuid": "moved"}, platform_company_id="4100"),
                deletion(TEAM, "deleted"),
                deletion(TEAM, "dead", updated_at="2026-02-02T00:00:00Z"),
                envelope(TEAM, {"uuid": "new"}),
            ]
        }
    )
    after, published = await bench.served(TEAM), await bench.mark(TEAM)
    kept = {name for name in after if name in before and stamp(after[name]) == stamp(before[name])}
    assert kept == {"same", "touched", "moved", "dead"}
    assert all(after[name]["clock"] > mark.clock for name in after.keys() - kept)
    assert [after[name]["sequence"] for name in ("changed", "deleted", "new", "gone")] == [8, 9, 10, 11]
    assert all(document["clock"] <= published.clock for document in after.values())
    assert published.sequence == 11
    assert after["gone"]["deleted"] is True
    assert after["gone"]["reason"] == "vanished"
    assert published.clock > mark.clock


def stamp(document: dict[str, int]) -> tuple[int, int]:
    return document["clock"], document["sequence"]


async def test_volatile_members_move_without_a_new_stamp(bench: Bench) -> None:
    await bench.build({LISTING: [envelope(LISTING)]})
    before = (await bench.served(LISTING))["listing-1"]
    await bench.build({LISTING: [envelope(LISTING, {"DaysOnMarket": 99})]})
    after = (await bench.served(LISTING))["listing-1"]
    assert after["record"]["DaysOnMarket"] == 99
    assert stamp(after) == stamp(before)


async def test_a_mark_from_the_future_is_still_stamped_above(bench: Bench) -> None:
    await bench.build({TEAM: [envelope(TEAM)]})
    ahead = Mark(clock=present() + 3_600_000, sequence=40, epoch=3, generation=(await bench.mark(TEAM)).generation)
    await publish_mark(bench.client, bench.connection.control_index, bench.connection.alias(TEAM), ahead)
    await bench.build({TEAM: [envelope(TEAM, {"name": "new"})]})
    document = (await bench.served(TEAM))["team-1"]
    assert stamp(document) == (ahead.clock + 1, 41)
    mark = await bench.mark(TEAM)
    assert (mark.clock, mark.sequence, mark.epoch) == (ahead.clock + 1, 41, 3)


async def test_stamps_that_were_never_published_are_not_given_again(bench: Bench) -> None:
    """A run that dies between swap and mark leaves no mark, or an old one."""
    await bench.build({TEAM: [envelope(TEAM, {"uuid": name}) for name in ("one", "two")]})
    await bench.client.delete(index=bench.connection.control_index, id=f"mark-{bench.connection.alias(TEAM)}")
    before = await bench.served(TEAM)
    await bench.build({TEAM: [envelope(TEAM, {"uuid": "one"}), envelope(TEAM, {"uuid": "three"})]})
    after = await bench.served(TEAM)
    assert stamp(after["one"]) == stamp(before["one"])
    assert after["three"]["sequence"] == 3
    assert after["three"]["clock"] > max(document["clock"] for document in before.values())


def test_stamps_never_fall_below_assigned_or_published_ones() -> None:
    stamps = LiveStamps(Mark(clock=present() + 60_000, sequence=7, epoch=2, generation="old"))
    given = [stamps.next_stamp() for _ in range(3)]
    assert [sequence for _, sequence in given] == [8, 9, 10]
    assert all(clock > present() + 50_000 for clock, _ in given)
    published = stamps.next_mark("new", "its-uuid")
    assert published.clock >= max(clock for clock, _ in given)
    assert (published.sequence, published.epoch, published.generation) == (10, 2, "new")
    assert stamps.next_stamp() == (published.clock + 1, 11)


def test_tombstones_are_kept_for_as_many_days_as_the_setting_says() -> None:
    """A minute more or less than 30 days old; the query of compaction and the rows of a rebuild agree."""
    context = IndexerContext(cast("Any", None), ConnectionSettings(), IndexerSettings(tombstone_days=30))
    bound = present() - 30 * 24 * 3600 * 1000
    row = IndexRow("t", "a:t", 1, 1, 0, 1, deleted=True, reason="deleted", stored_version=1)
    older, younger = (replace(row, clock=bound + shift) for shift in (-60_000, 60_000))
    assert is_expired_tombstone(context, older)
    assert not is_expired_tombstone(context, younger)
    assert not is_expired_tombstone(context, replace(older, deleted=False))
    _, clock = expired_tombstones(context)["bool"]["filter"]
    assert older.clock < clock["range"]["clock"]["lt"] < younger.clock
