"""No key learns of a record, a count or an event of a company that it may not read, whatever it asks."""

import pytest

from mappings import AGENT
from service.reso.filter.clauses import KeywordMatcher
from service.reso.ordering import CLOCK
from service.reso.sets.declarations import ENTITY_SETS
from service.reso.sets.edm_types import EdmType
from service.reso.sets.entity_set import ColumnSearch, EntityProperty, PropertyColumn, field_column
from tests.contract.world import PARENT, World
from tests.odata.conftest import MarketClient
from tests.odata.expected_children import expected_children
from tests.odata.expected_entities import KEYS, expected_entities
from tests.odata.filter_strategies import quoted
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, ODataClient

_SCOPES = ("all", "large", "child", "parent", "two")


def _companies(world: World, key: str) -> tuple[str, ...]:
    numbers = {world.numeric(world.company(value)): world.company(value) for value in world.of("companies")}
    return {
        "all": (),
        "large": ("summit-crest",),
        "child": (numbers["4101"],),
        "parent": (PARENT, *world.children()),
        "two": ("tidewater-brokers", "orchard-street"),
    }[key]


_WIDEST = [
    None,
    "{key} ne 'x'",
    "not ({key} eq 'x')",
    "{key} gt '' or {key} le '~'",
    "ModificationTimestamp gt 1970-01-01T00:00:00Z",
    "{key} in ({all})",
    "{key} eq 'x' or not ({key} eq 'y' and {key} eq 'z')",
]


@pytest.mark.parametrize("key", _SCOPES)
@pytest.mark.parametrize("name", KEYS)
async def test_rows_and_counts_are_those_of_the_scope(world: World, odata: ODataClient, key: str, name: str) -> None:
    own = [entry[KEYS[name]] for entry in expected_entities(world, name, *_companies(world, key))]
    everything = [entity[KEYS[name]] for entity in expected_entities(world, name)]
    assert own
    for wide in _WIDEST:
        listed = ",".join(map(quoted, everything[:90]))
        text = wide and wide.format(key=KEYS[name], all=listed)
        expected = [value for value in own if value in everything[:90]] if wide and "{all}" in wide else own
        found = await odata.walk(name, key, MAX_PAGE_SIZE_PREFERENCE, filter=text, select=KEYS[name])
        assert [row[KEYS[name]] for row in found] == expected
        page = await odata.page(name, key, filter=text, count="true", top=0)
        assert page["@odata.count"] == len(expected)
        last = await odata.page(name, key, filter=text, orderby="ModificationTimestamp desc", skip=len(expected))
        assert last["value"] == []


@pytest.mark.parametrize("key", _SCOPES)
async def test_events_are_those_of_the_scope(world: World, odata: ODataClient, key: str) -> None:
    companies = _companies(world, key)
    own = {(name, item[field]) for name, field in KEYS.items() for item in expected_entities(world, name, *companies)}
    foreign = {(name, entry2[field]) for name, field in KEYS.items() for entry2 in expected_entities(world, name)} - own
    for text in (None, "EntityEventSequence gt 0", "EntityEventSequence ne 0", "not (ResourceName eq 'x')"):
        found = await odata.walk("EntityEvent", key, MAX_PAGE_SIZE_PREFERENCE, filter=text)
        assert {(entry["ResourceName"], entry["ResourceRecordKey"]) for entry in found} == own
        page = await odata.page("EntityEvent", key, filter=text, count="true", top=1)
        assert page["@odata.count"] == len(own)
    for name, identifier in sorted(foreign)[:40]:
        text = f"ResourceRecordKey eq {quoted(identifier)} and ResourceName eq '{name}'"
        page = await odata.page("EntityEvent", key, filter=text, count="true")
        assert (page["value"], page["@odata.count"]) == ([], 0)
    numbers = {row["EntityEventSequence"] for row in await odata.events()}
    hidden = numbers - {entity["EntityEventSequence"] for entity in await odata.events(0, key)}
    for number in sorted(hidden)[:20]:
        assert (await odata.request(f"EntityEvent({number})", key)).status == 404


@pytest.mark.parametrize("key", _SCOPES)
@pytest.mark.parametrize("name", KEYS)
async def test_a_foreign_record_looks_like_none(world: World, odata: ODataClient, key: str, name: str) -> None:
    field = KEYS[name]
    own = {row[field] for row in expected_entities(world, name, *_companies(world, key))}
    for entity in expected_entities(world, name)[:30]:
        reply = await odata.request(f"{name}('{entity[field]}')", key)
        twin = await odata.request(f"{name}('{entity[field][::-1]}')", key)
        assert reply.status == (200 if entity[field] in own else 404)
        assert twin.status == 404
        if reply.status == 404:
            assert reply.raw.decode().replace(entity[field], "") == twin.raw.decode().replace(entity[field][::-1], "")


async def test_a_next_link_leads_another_key_to_its_own_records_alone(world: World, odata: ODataClient) -> None:
    page = await odata.page("Property", "all", {"Prefer": "maxpagesize=5"}, select="ListingKey")
    own = {entity["ListingKey"] for entity in expected_entities(world, "Property", *_companies(world, "two"))}
    found = (await odata.follow(page["@odata.nextLink"], "two"))["value"]
    assert found
    assert {row["ListingKey"] for row in found} <= own


async def test_what_a_key_may_not_see_is_empty_and_no_filter(
    market: MarketClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No property is of a guarded member by now: one is made of such a member."""
    (member,) = [value for value in AGENT.fields if value.name == "access_level"]
    made = field_column(AGENT, member)
    column = PropertyColumn(made.source_member, search=ColumnSearch(KeywordMatcher("office"), CLOCK), group=made.group)
    known = ENTITY_SETS["Member"].properties
    monkeypatch.setitem(known, "Access", EntityProperty("Access", EdmType.STRING, {AGENT: column}))
    assert (await market.get("Member", "poor", filter="Access ne null")).problem == (403, "forbidden", "$filter")
    assert (await market.get("Member", "poor", orderby="Access")).problem == (403, "forbidden", "$orderby")
    assert (await market.get("Member", "a", filter="Access ne null", orderby="Access")).status == 200
    seen = {key: (await market.page("Member", key))["value"][0] for key in ("a", "poor")}
    assert seen["a"]["Access"] == "access_level of a test"
    assert seen["poor"] == seen["a"] | {"Access": None}


async def test_what_is_known_of_others_finds_nobody_in_another_company(world: World, odata: ODataClient) -> None:
    """Each filter that finds people, homes and open houses of a company finds none of it with another's key."""
    known = {
        "Member": ("MemberStateLicense", "MemberFullName", "MemberLastName", "MemberEmail", "OfficeName"),
        "Office": ("OfficeMlsId", "OfficeName", "OfficeEmail"),
        "Property": ("ListOfficeMlsId", "ListOfficeName", "ListAgentFullName"),
    }
    for name, properties in known.items():
        own = expected_entities(world, name, *_companies(world, "two"))
        foreign = expected_entities(world, name, "summit-crest")[-1]
        for title in properties:
            text = f"{title} eq {quoted(foreign[title])}"
            expected = [row[KEYS[name]] for row in own if row[title] == foreign[title]]
            page = await odata.page(name, "two", filter=text, count="true", select=KEYS[name])
            assert [row[KEYS[name]] for row in page["value"]] == expected, text
            assert page["@odata.count"] == len(expected)
            assert foreign[KEYS[name]] in {
                row[KEYS[name]] for row in await odata.walk(name, "large", MAX_PAGE_SIZE_PREFERENCE, filter=text)
            }, text
    houses = expected_children(world, "OpenHouse", *_companies(world, "two"))
    day = expected_children(world, "OpenHouse", "summit-crest")[-1]["OpenHouseDate"]
    text = f"OpenHouseDate eq {day}"
    keys = sorted(row["OpenHouseKey"] for row in houses if row["OpenHouseDate"] == day)
    for order in (None, "OpenHouseDate"):
        page = await odata.page("OpenHouse", "two", filter=text, orderby=order, count="true", top=1000)
        assert [row["OpenHouseKey"] for row in page["value"]] == keys
        assert page["@odata.count"] == len(keys)
    homes = await odata.page("Property", "two", filter=f"OpenHouse/any(o:o/{text})", count="true", top=1000)
    assert [row["ListingKey"] for row in homes["value"]] == sorted({key.partition("!")[0] for key in keys})
