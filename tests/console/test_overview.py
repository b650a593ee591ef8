"""The exact content of `/console/data.json`."""

import orjson
import pytest

from cluster.control_index import troubles_id
from mappings import RESOURCES
from service.console.consumers import LATE_PAUSES, LATE_SECONDS, MIN_KNOWN_PAUSES, STUCK_AFTER_REPEATS
from service.console.history import STEP_COUNT, STEP_SECONDS
from service.console.summaries import compute_figures
from tests.console.conftest import BUILD, LAST, NOON, PUBLISHED, publish
from tests.console.console_service import FEED, ConsoleService
from tests.service.stand_in import Reply, StandIn, refusal

ALIASES = ",".join(resource.alias for resource in RESOURCES)
_ONE = f"{FEED}&page_size=1"


async def test_all_is_well_and_the_held_data_is_shown(operating: ConsoleService) -> None:
    data = await operating.data()
    assert (data["level"], data["headline"], data["notices"]) == ("well", "All is well.", [])
    held = {each.pop("resource"): each for each in data["resources"]}
    assert list(held) == ["companies", "offices", "agents", "teams", "listings", "sold_listings"]
    assert held["listings"] == {
        "alias": "listings",
        "records": 2,
        "generations": ["listings-v0001"],
        "replaced": "listings-v0000",
        "mark": PUBLISHED,
        "sequence": 17,
        "last": None,
        "build": None,
        "fragmentation": None,
        "troubles": {"count": 0, "since": 0, "pending": 0, "pending_since": 0},
    }
    assert (held["teams"]["records"], held["teams"]["mark"]) == (0, None)
    assert (data["at"], data["workers"], data["away"]) == (NOON, 1, [])


async def test_tombstones_are_not_counted(operating: ConsoleService, stand_in: StandIn) -> None:
    await operating.data()
    counted = [body for path, body in stand_in.asked if path == "/listings/_search"]
    assert {"size": 0, "track_total_hits": True, "query": {"term": {"deleted": False}}} in counted


async def test_rates_are_of_the_last_minute_and_charts_of_ten(operating: ConsoleService, key: str) -> None:
    for path in (FEED, FEED, _ONE, "/v1/teams"):
        await operating.get(path, key)
    minute = (await operating.data())["figures"]["minute"]
    assert (minute["requests"], minute["per_second"], minute["rows_per_second"]) == (4, 4 / 60, 5 / 60)
    assert (minute["failed"], minute["refused"]) == (0, 0)
    assert 0 < minute["median"] <= minute["slowest"]
    operating.clock.now += 60
    drawn = (await operating.data())["figures"]
    assert (drawn["minute"]["requests"], drawn["minute"]["median"]) == (0, None)
    assert [route["name"] for route in drawn["routes"]] == ["/v1/listings", "/v1/teams"]
    assert drawn["charts"]["requests"] == [0.0] * (STEP_COUNT - 1 - 12) + [4 / STEP_SECONDS] + [0.0] * 11
    operating.clock.now += STEP_COUNT * STEP_SECONDS
    assert (await operating.data())["figures"]["routes"] == []


async def test_probes_and_pages_do_not_count_as_requests_of_partners(operating: ConsoleService) -> None:
    for path in ("/livez", "/docs", "/nothing"):
        await operating.get(path)
    assert (await operating.data())["figures"]["minute"]["requests"] == 0


async def test_failures_are_wrong_and_pass(operating: ConsoleService, stand_in: StandIn, key: str) -> None:
    await operating.get(FEED, key)
    stand_in.out(refusal(500, "strange"), "listings")
    assert await operating.get(FEED, key) >= 500
    stand_in.replies.clear()
    data = await operating.data()
    assert (data["level"], data["headline"]) == ("wrong", "1 problem.")
    assert await operating.notices() == ["1 of 2 requests in the last minute failed."]
    operating.clock.now += 60
    assert await operating.notices() == []


async def test_what_the_monitor_finds_is_shown_with_its_remedy(operating: ConsoleService, stand_in: StandIn) -> None:
    stand_in.indices["teams-v0001"]["aliases"] = {}
    stand_in.documents["control", "mark-teams"] = stand_in.documents["control", "mark-listings"]
    await operating.watch.check_now()
    data = await operating.data()
    (notice,) = data["notices"]
    assert notice["level"] == "wrong"
    assert notice["text"].startswith("teams: its alias is missing. The alias teams does not exist.")
    assert "brokerage index reindex" in notice["remedy"]
    held = {each["resource"]: each for each in data["resources"]}
    assert (held["teams"]["generations"], held["teams"]["records"], held["listings"]["records"]) == ([], None, 2)


async def test_an_old_index_needs_a_look(operating: ConsoleService, stand_in: StandIn) -> None:
    publish(stand_in, NOON - 25 * 3600, sequence=17)
    data = await operating.data()
    assert (data["level"], data["headline"]) == ("warning", "1 warning.")
    assert [notice["text"] for notice in data["notices"]] == ["listings: no changes published for 25 hours."]


async def test_the_lag_of_the_last_run_and_an_unfinished_build_are_shown(
    operating: ConsoleService, stand_in: StandIn
) -> None:
    stand_in.documents["control", "last-listings"] = LAST
    stand_in.documents["control", "build-listings"] = {"progress": BUILD}
    data = await operating.data()
    (held,) = [each for each in data["resources"] if each["resource"] == "listings"]
    assert held["last"] == {"verb": "reindex", "at": PUBLISHED, "lag": 90.0, "dead": 0}
    assert (held["build"], data["level"]) == (BUILD, "well")
    # Behind the swap, and before it is forgotten; and a run that read no record.
    stand_in.documents["control", "build-listings"] = {"progress": BUILD | {"candidate": "listings-v0001"}}
    stand_in.documents["control", "last-listings"] = LAST | {"newest": 0}
    (held,) = [each for each in (await operating.data())["resources"] if each["resource"] == "listings"]
    assert (held["build"], held["last"]["lag"]) == (None, None)


async def test_a_refused_build_needs_a_look(operating: ConsoleService, stand_in: StandIn) -> None:
    stand_in.documents["control", "build-listings"] = {"progress": BUILD | {"refusal": "It lacks 30 of 50."}}
    (notice,) = (await operating.data())["notices"]
    assert notice["level"] == "warning"
    assert notice["text"] == "listings: the build of listings-v0002 was refused. It lacks 30 of 50."
    assert "`brokerage index reindex SOURCE listings`" in notice["remedy"]


def wear_of_listings(deleted: int) -> Reply:
    """Return statistics in which one copy of one shard has that many deleted documents and 900 others."""
    sound = {"docs": {"count": 900, "deleted": 0}, "segments": {"count": 1}}
    fragmented = {"docs": {"count": 900, "deleted": deleted}, "segments": {"count": 7}}
    return Reply(
        body=orjson.dumps({"indices": {"listings-v0001": {"shards": {"0": [sound, fragmented], "1": [sound]}}}})
    )


async def test_a_fragmented_index_is_to_be_compacted(operating: ConsoleService, stand_in: StandIn) -> None:
    stand_in.replies[ALIASES] = wear_of_listings(100)
    data = await operating.data()
    (held,) = [each for each in data["resources"] if each["resource"] == "listings"]
    assert held["fragmentation"] == {"deleted": 0.1, "segments": 7, "shards": 2, "fragmented_shards": 1}
    (notice,) = data["notices"]
    assert notice["level"] == "warning"
    assert notice["text"].startswith(
        "listings: 1 of 2 shards are fragmented: 10.0% deleted documents, 7 segments at most."
    )
    assert "`brokerage index compact listings`" in notice["remedy"]


async def test_records_that_are_not_as_their_source_says_are_a_warning(
    operating: ConsoleService, stand_in: StandIn
) -> None:
    stand_in.documents["control", troubles_id("listings")] = {"count": 2, "since": 1_795_730_400_000}
    data = await operating.data()
    (notice,) = data["notices"]
    assert (notice["level"], notice["text"]) == (
        "warning",
        "listings: 2 records are not served as their source says, since 2026-11-26 22:00 UTC.",
    )
    assert "`brokerage index troubles listings`" in notice["remedy"]


async def test_an_index_within_the_bounds_needs_nothing(operating: ConsoleService, stand_in: StandIn) -> None:
    stand_in.replies[ALIASES] = wear_of_listings(9)
    data = await operating.data()
    (held,) = [each for each in data["resources"] if each["resource"] == "listings"]
    assert (held["fragmentation"]["fragmented_shards"], data["notices"]) == (0, [])


async def test_without_the_privilege_the_wear_is_left_out(operating: ConsoleService, stand_in: StandIn) -> None:
    stand_in.replies[ALIASES] = refusal(403, "unauthorized")
    data = await operating.data()
    assert (data["level"], {each["fragmentation"] for each in data["resources"]}) == ("well", {None})


async def test_a_consumer_that_repeats_the_same_page_is_stuck_until_it_advances(
    operating: ConsoleService, key: str
) -> None:
    for _ in range(STUCK_AFTER_REPEATS - 1):
        await operating.get(_ONE, key)
    assert await operating.notices() == []
    await operating.get(_ONE, key)
    (reader,) = (await operating.data())["consumers"]
    assert reader["trouble"] == "requested the same page 5 times in a row"
    assert await operating.notices() == ["North portal (pages, listings) requested the same page 5 times in a row."]
    await operating.get(f"{_ONE}&last_platform_listing_id=L1", key)
    assert await operating.notices() == []


async def test_polling_the_last_page_is_not_stuck(operating: ConsoleService, key: str) -> None:
    for _ in range(STUCK_AFTER_REPEATS + 1):
        await operating.get(FEED, key)
    (reader,) = (await operating.data())["consumers"]
    assert (reader["trouble"], reader["seen"]["is_final"], reader["seen"]["last"]) == ("", True, "L2")


@pytest.mark.parametrize("page", [_ONE, FEED], ids=["within a walk", "between walks"])
async def test_who_does_not_come_back_is_missed(operating: ConsoleService, key: str, page: str) -> None:
    pause, text = 60.0, "stopped before the last page" if page is _ONE else "did not come back for changes"
    for number in range(MIN_KNOWN_PAUSES + 1):
        cursor = "" if page is FEED else f"&last_platform_listing_id=L{number}"
        operating.clock.now += pause
        await operating.get(page + cursor, key)
    operating.clock.now += LATE_PAUSES * pause
    assert await operating.notices() == []
    operating.clock.now += 1
    assert await operating.notices() == [f"North portal (pages, listings) {text}."]
    await operating.get(page, key)
    assert await operating.notices() == []


async def test_pauses_between_walks_are_not_those_within(operating: ConsoleService, key: str) -> None:
    between = 600.0
    for _ in range(MIN_KNOWN_PAUSES + 1):
        operating.clock.now += between
        await operating.get(_ONE, key)
        operating.clock.now += 1
        await operating.get(f"{FEED}&last_platform_listing_id=L1", key)
    operating.clock.now += LATE_PAUSES * between - 1
    assert await operating.notices() == []
    await operating.get(_ONE, key)
    operating.clock.now += LATE_SECONDS + 1
    assert await operating.notices() == ["North portal (pages, listings) stopped before the last page."]


async def test_who_came_a_few_times_is_not_missed(operating: ConsoleService, key: str) -> None:
    for _ in range(MIN_KNOWN_PAUSES):
        await operating.get(FEED, key)
    operating.clock.now += 10 * LATE_SECONDS
    assert await operating.notices() == []


async def test_a_consumer_is_behind_by_what_was_published_since_its_last_whole_walk(
    operating: ConsoleService, stand_in: StandIn, key: str
) -> None:
    async def behind() -> float | None:
        (reader,) = (await operating.data())["consumers"]
        found: float | None = reader["behind"]
        return found

    await operating.get(_ONE, key)
    assert await behind() is None
    publish(stand_in, PUBLISHED + 60, sequence=18)
    await operating.get(f"{FEED}&last_platform_listing_id=L1", key)
    assert await behind() == 60
    await operating.get(FEED, key)
    assert await behind() == 0


async def test_refusals_stand_with_the_key(operating: ConsoleService, stand_in: StandIn) -> None:
    greedy = stand_in.grant(name="Greedy", rate=1, burst=1)
    assert [await operating.get(FEED, greedy) for _ in range(3)] == [200, 429, 429]
    data = await operating.data()
    (use,) = data["keys"]
    assert (use["name"], use["seen"]["refused"], use["seen"]["refused_at"]) == ("Greedy", 2, NOON)
    assert (use["seen"]["route"], use["seen"]["status"]) == ("/v1/listings", 429)
    assert (data["figures"]["minute"]["refused"], data["notices"]) == (2, [])


async def test_no_key_is_shown(operating: ConsoleService, key: str) -> None:
    await operating.get(FEED, key)
    await operating.get(f"{FEED}&api-key={key}")
    assert await operating.get(f"{FEED}&last_platform_listing_id={key}", key) == 200
    for path in ("/console/data.json", "/console/worker.json"):
        _, _, body = await operating.private(path)
        assert key.split("_")[1].encode() in body
        assert key.split("_")[2].encode() not in body


async def test_the_console_comes_while_elasticsearch_is_away(operating: ConsoleService, stand_in: StandIn) -> None:
    await operating.data()
    stand_in.is_away(refusal(503, "away"))
    await operating.watch.check_now()
    data = await operating.data()
    assert data["level"] == "wrong"
    assert data["notices"][0]["text"].startswith("elasticsearch: it is unreachable.")


def test_without_counts_there_is_no_figure() -> None:
    drawn = compute_figures([], NOON)
    assert (drawn.minute.requests, drawn.minute.slowest, drawn.loop_late, drawn.routes) == (0, None, None, [])
    assert len(drawn.charts.requests) == STEP_COUNT - 1
