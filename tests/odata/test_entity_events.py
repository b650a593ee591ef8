"""EntityEvent: what changed and what has gone comes once, in the order of its numbers, and nothing else does."""

from typing import Any

import pytest
from hypothesis import strategies as st
from yarl import URL

from indexer.maintenance.inventory import prune
from mappings import COMPANY, LISTING, OFFICE, SOLD_LISTING
from service.reso.sets.entity_rows import read_doc_values
from tests.feed.feed_client import company, deleted_listing, listing, office
from tests.odata.conftest import SHARED_KEY, MarketClient, sold
from tests.odata.filter_strategies import examples, filter_expressions, in_lists, number_comparisons, quoted
from tests.odata.odata_client import Entity

_ALL = {
    "Office": {"O1", "O2"},
    "Member": {"0b0e6d3c-5f0d-4f35-9d3c-111111111111", "0b0e6d3c-5f0d-4f35-9d3c-222222222222"},
    "Teams": {"T1"},
    "Property": {*(f"{kind}{at}" for kind in "LS" for at in range(5)), SHARED_KEY},
}


def _named(events: list[Entity]) -> list[tuple[str, str]]:
    return [(row["ResourceName"], row["ResourceRecordKey"]) for row in events]


def _numbers(events: list[Entity]) -> list[int]:
    return [row["EntityEventSequence"] for row in events]


async def test_from_the_beginning_every_record_has_an_event_in_ascending_order(unchanged: MarketClient) -> None:
    found = await unchanged.walk("EntityEvent", "all", {"Prefer": "maxpagesize=2"})
    assert _numbers(found) == sorted(set(_numbers(found)))
    named = _named(found)
    assert {name: {key for entity, key in named if entity == name} for name in _ALL} == _ALL
    assert len(named) == sum(map(len, _ALL.values())) + 1  # one key is that of two documents


async def test_the_url_of_an_event_leads_to_its_record(unchanged: MarketClient) -> None:
    for event in await unchanged.walk("EntityEvent"):
        reply = await unchanged.request(URL(event["ResourceRecordUrl"], encoded=True))
        assert reply.status == 200
        assert event["ResourceRecordKey"] in reply.body.values()


async def test_a_follower_gets_changes_deletions_and_departures(market: MarketClient) -> None:
    marks = {key: await market.last_event_number(key) for key in ("a", "b", "ab", "all")}
    await market.update(
        listing("L0", "a", 10, price=7), deleted_listing("L2", "a", 10), listing("L4", "b", 10, price=8)
    )
    named = {key: set(_named(await market.events(marks[key], key))) for key in marks}
    assert named["a"] == {("Property", name) for name in ("L0", "L2", "L4")}
    assert named["b"] == {("Property", "L4")}
    assert named["ab"] == named["all"] == named["a"]
    statuses = {name: (await market.request(f"Property('{name}')", "a")).status for name in ("L0", "L2", "L4")}
    assert statuses == {"L0": 200, "L2": 404, "L4": 404}
    await market.update(office("O2", "b", 11), resource=OFFICE)
    await market.update(sold("S1", "b", price=77) | {"updated_at": "2026-01-09T00:00:00Z"}, resource=SOLD_LISTING)
    assert set(_named(await market.events(marks["b"], "b"))) == {
        ("Property", "L4"),
        ("Office", "O2"),
        ("Property", "S1"),
    }
    assert _numbers(await market.events(marks["all"])) == sorted(_numbers(await market.events(marks["all"])))


async def test_a_change_of_a_company_is_not_an_event(market: MarketClient) -> None:
    end = await market.last_event_number()
    await market.update(company("a") | {"updated_at": "2026-02-01T00:00:00Z"}, resource=COMPANY)
    assert await market.events(end) == []


async def test_an_event_keeps_its_number_until_the_record_changes(market: MarketClient) -> None:
    before = {(entity["ResourceName"], entity["EntityEventSequence"]) for entity in await market.events()}
    await market.update(listing("L0", "a", 10, price=7))
    after = {(entry["ResourceName"], entry["EntityEventSequence"]) for entry in await market.events()}
    assert len(after - before) == 1
    assert max(after - before, key=lambda row: row[1])[1] == await market.last_event_number()


async def test_an_event_alone_is_what_it_is_in_its_set(unchanged: MarketClient) -> None:
    last = (await unchanged.page("EntityEvent", orderby="EntityEventSequence desc", top=1))["value"][0]
    number = last["EntityEventSequence"]
    for spelt in (f"EntityEvent({number})", f"EntityEvent('{number}')"):
        body = (await unchanged.request(spelt)).body
        assert body == {"@odata.context": f"{unchanged.root}/$metadata#EntityEvent/$entity", **last}
    for spelt in (f"EntityEvent({number + 1})", "EntityEvent(0)", "EntityEvent('x')", "EntityEvent(1)"):
        assert (await unchanged.request(spelt)).problem == (404, "not-found", "")


async def test_random_filters_on_events_answer_what_python_finds(market: MarketClient) -> None:
    # A departure and a tombstone are among them.
    await market.update(listing("L1", "a", 10), deleted_listing("L3", "b", 10))
    for key in ("all", "a", "b"):
        everything = await market.events(0, key)
        # A number below the first one or above the last one is not of these data: to continue from it gets 410.
        numbers = [0, *_numbers(everything)]
        keys = [*sorted({row["ResourceRecordKey"] for row in everything}), "x", "L2", "L3"]
        leaves = st.one_of(
            number_comparisons("EntityEventSequence", numbers),
            in_lists("ResourceName", [*_ALL, "Media"], quoted),
            in_lists("ResourceRecordKey", keys, quoted),
        )
        for text, holds in examples(filter_expressions(leaves), 40):
            expected = [value for value in everything if holds(value)]
            page = await market.page("EntityEvent", key, {"Prefer": "maxpagesize=1000"}, filter=text, count="true")
            assert page["value"] == expected, text
            assert page["@odata.count"] == len(expected)


async def test_order_top_skip_and_select_go_together(unchanged: MarketClient) -> None:
    everything = _numbers(await unchanged.events())
    small = {"Prefer": "odata.maxpagesize=3"}
    found = await unchanged.walk("EntityEvent", "all", small, orderby="EntityEventSequence desc", top=10, skip=2)
    assert _numbers(found) == everything[::-1][2:12]
    found = await unchanged.walk("EntityEvent", "all", small, skip=4, top=5, select="ResourceName")
    assert _numbers(found) == everything[4:9]
    assert {tuple(value) for value in found} == {("EntityEventSequence", "ResourceName")}
    assert (await unchanged.page("EntityEvent", top=0, count="true"))["@odata.count"] == len(everything)
    assert (await unchanged.page("EntityEvent", skip=10_000))["value"] == []


async def test_a_walk_meets_all_that_stays_while_other_records_change(market: MarketClient) -> None:
    everything = {entity["ResourceRecordKey"] for entity in await market.events()}
    page = await market.page("EntityEvent", "all", {"Prefer": "maxpagesize=3"}, count="true")
    found, second = page["value"], 10
    while link := page.get("@odata.nextLink"):
        await market.update(listing("L0", "a", second, price=second))
        page, second = await market.follow(link), second + 1
        found += page["value"]
        if second > 20:
            break
    while link := page.get("@odata.nextLink"):
        page = await market.follow(link)
        found += page["value"]
    assert _numbers(found) == sorted(set(_numbers(found)))
    assert {row["ResourceRecordKey"] for row in found} == everything
    assert (await market.events(_numbers(found)[-1])) == []


async def _pruned(market: MarketClient) -> int:
    """Delete a record and forget it; return the number of the last event before."""
    mark = await market.last_event_number()
    await market.update(deleted_listing("L2", "a", 10))
    tombstones = (await prune(market.bench.engine(tombstone_days=0))).tombstones
    assert tombstones == 1
    return mark


async def test_a_reader_that_may_have_missed_a_deletion_gets_410(market: MarketClient) -> None:
    mark = await _pruned(market)
    for text in (f"EntityEventSequence gt {mark}", f"EntityEventSequence ge {mark} and ResourceName eq 'Office'"):
        reply = await market.get("EntityEvent", filter=text)
        assert reply.problem == (410, "events-forgotten", "$filter")
    message = reply.body["error"]["message"]
    end = int(message.partition("EntityEventSequence ")[2].partition(" ")[0])
    assert end > mark
    assert await market.events(end) == []
    # A reader that restarts needs no earlier deletions.
    assert len(await market.events(0)) > 10
    assert len(await market.walk("EntityEvent", "all", {"Prefer": "maxpagesize=2"})) > 10
    descending = await market.get("EntityEvent", filter=f"EntityEventSequence le {mark}")
    assert descending.status == 200


async def test_a_cursor_that_pruning_has_passed_gets_410(market: MarketClient) -> None:
    mark = await market.last_event_number()
    await market.update(
        listing("L0", "a", 10, price=3), listing("L4", "a", 10, price=3), deleted_listing("L2", "a", 10)
    )
    filtered = f"EntityEventSequence gt {mark}"
    from_mark = await market.page("EntityEvent", "all", {"Prefer": "maxpagesize=1"}, filter=filtered)
    from_begin = await market.page("EntityEvent", "all", {"Prefer": "maxpagesize=1"})
    await prune(market.bench.engine(tombstone_days=0))
    reply = await market.request(URL(from_mark["@odata.nextLink"], encoded=True))
    assert reply.problem == (410, "events-forgotten", "$filter")
    assert len((await market.follow(from_begin["@odata.nextLink"]))["value"]) == 1
    await market.update(deleted_listing("L4", "a", 12))
    await prune(market.bench.engine(tombstone_days=0))
    reply = await market.request(URL(from_begin["@odata.nextLink"], encoded=True))
    assert reply.problem == (410, "events-forgotten", "$filter")


async def test_pruning_while_events_are_searched_for_is_noticed(
    market: MarketClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = await market.last_event_number()
    await market.update(deleted_listing("L2", "a", 10))
    search = read_doc_values

    async def slow(call: Any, resource: Any, *given: Any) -> Any:
        found: list[Any] = await search(call, resource, *given)
        if resource is LISTING:
            await prune(market.bench.engine(tombstone_days=0))
        return found

    monkeypatch.setattr("service.reso.entity_events.read_doc_values", slow)
    reply = await market.get("EntityEvent", filter=f"EntityEventSequence gt {mark} and ResourceRecordKey eq 'L2'")
    assert reply.problem == (410, "events-forgotten", "$filter")
