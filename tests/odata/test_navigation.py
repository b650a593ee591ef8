"""Related entities by path, as in `Property('…')/Media`: what their own sets and `$expand` answer to the same key."""

import pytest

from service.reso.sets.declarations import ENTITY_SETS, Navigation, navigations
from tests.contract.world import World
from tests.odata.expected_children import PARENT_KEYS
from tests.odata.expected_entities import expected_entities
from tests.odata.filter_strategies import quoted
from tests.odata.odata_client import MAX_PAGE_SIZE_PREFERENCE, Entity, ODataClient, ODataReply

# No listing of the generated data has changed: tests/history follows that link.
_LINKS = [
    (name, link) for name in ENTITY_SETS for link in navigations(name).values() if link.name != "HistoryTransactional"
]
_TO_MANY = [(name, link) for name, link in _LINKS if link.children]
_COMPANIES = {"all": (), "two": ("tidewater-brokers", "orchard-street")}


async def _get(odata: ODataClient, path: str, key: str, **options: str) -> ODataReply:
    return await odata.request((odata.root / path).with_query({f"${k}": v for k, v in options.items()}), key)


async def _some(odata: ODataClient, name: str, link: Navigation, key: str) -> list[Entity]:
    """Return entities with the related ones, some of which have several or one."""
    rows = await odata.walk(name, key, MAX_PAGE_SIZE_PREFERENCE, expand=link.name)
    related = [row for row in rows if row[link.name]]
    assert related
    return [*related[:8], *(row for row in rows[:40] if not row[link.name])]


@pytest.mark.parametrize("key", _COMPANIES)
@pytest.mark.parametrize(("name", "link"), _LINKS, ids=lambda value: getattr(value, "name", value))
async def test_a_path_leads_where_the_expansion_does(odata: ODataClient, name: str, link: Navigation, key: str) -> None:
    field = ENTITY_SETS[name].key
    for row in await _some(odata, name, link, key):
        for path in (f"{name}({quoted(row[field])})", f"{name}({field}={quoted(row[field])})"):
            reply = await _get(odata, f"{path}/{link.name}", key)
            if link.children is None and row[link.name] is None:
                assert (reply.status, reply.raw) == (204, b"")
                continue
            body = reply.body
            assert reply.status == 200, reply.raw
            of_one = "" if link.children else "/$entity"
            assert body.pop("@odata.context") == f"{odata.root}/$metadata#{link.target.name}{of_one}"
            if link.children is None:
                assert body == row[link.name]
                continue
            parent = f"{PARENT_KEYS[link.target.name]} eq {quoted(row[field])}"
            assert body == {"value": await odata.walk(link.target.name, key, filter=parent)}
            assert sorted(map(str, body["value"])) == sorted(map(str, row[link.name]))
            counted = await _get(odata, f"{path}/{link.name}/$count", key)
            assert (counted.status, counted.raw) == (200, b"%d" % len(row[link.name]))


@pytest.mark.parametrize(("name", "link"), _TO_MANY, ids=lambda value: getattr(value, "name", value))
async def test_related_entities_take_the_options_of_their_set(odata: ODataClient, name: str, link: Navigation) -> None:
    own, target = ENTITY_SETS[name].key, link.target.key
    rows = await odata.walk(name, "all", MAX_PAGE_SIZE_PREFERENCE, expand=link.name)
    row = max(rows, key=lambda each: len(each[link.name]))
    keys = sorted(each[target] for each in row[link.name])
    path = f"{name}({quoted(row[own])})/{link.name}"
    preferred = {"Prefer": "maxpagesize=1"}
    found = await odata.walk(path, "all", preferred, orderby=f"{target} desc", select=target, count="true")
    assert found == [{target: each} for each in reversed(keys)]
    assert len(keys) > 1
    page = await odata.page(path, "all", preferred, select=target, count="true")
    assert (page["@odata.count"], page["@odata.context"]) == (
        len(keys),
        f"{odata.root}/$metadata#{link.target.name}({target})",
    )
    assert page["@odata.nextLink"].startswith(f"{odata.root}/{path}?")
    chosen = f"{target} in ({quoted(keys[0])},'other!x') or {target} gt {quoted(keys[-1])}"
    assert [each[target] for each in await odata.walk(path, filter=chosen)] == keys[:1]
    assert (await _get(odata, f"{path}/$count", "all", filter=chosen)).raw == b"1"
    # A token belongs to the entity whose page it follows.
    other = next(each for each in rows if each[own] != row[own])
    token = page["@odata.nextLink"].rpartition("=")[2]
    reply = await _get(odata, f"{name}({quoted(other[own])})/{link.name}", "all", skiptoken=token)
    assert reply.problem == (400, "invalid-parameter", "$skiptoken")


@pytest.mark.parametrize(("name", "link"), _LINKS, ids=lambda value: getattr(value, "name", value))
async def test_a_foreign_entity_leads_nowhere(world: World, odata: ODataClient, name: str, link: Navigation) -> None:
    field = ENTITY_SETS[name].key
    own = {row[field] for row in expected_entities(world, name, *_COMPANIES["two"])}
    foreign = [row[field] for row in expected_entities(world, name) if row[field] not in own]
    for value in (*foreign[:5], "nothing"):
        for path in (link.name, f"{link.name}/$count") if link.children else (link.name,):
            reply = await _get(odata, f"{name}({quoted(value)})/{path}", "two")
            assert reply.problem == (404, "not-found", "")
            assert reply.body["error"]["message"] == f"There is no {name} with {field} {value!r}."
    assert (await _get(odata, f"{name}({quoted(foreign[0])})/Nothing", "all")).problem[0] == 404


async def test_a_selected_navigation_property_is_there_if_it_is_expanded(odata: ODataClient) -> None:
    for select, expand, context, members in (
        ("City,Media", "Media", "(City,Media())", {"ListingKey", "City", "Media"}),
        (
            "City,Media,ListAgent",
            "Media($select=Order)",
            "(City,ListAgent,Media(Order))",
            {"ListingKey", "City", "Media"},
        ),
        ("City,Media", None, "(City,Media)", {"ListingKey", "City"}),
        ("Media", None, "(Media)", {"ListingKey"}),
    ):
        page = await odata.page("Property", "all", None, top=2, select=select, expand=expand)
        assert page["@odata.context"].endswith(f"#Property{context}")
        assert [row.keys() for row in page["value"]] == [members] * 2
        key = quoted(page["value"][0]["ListingKey"])
        alone = await odata.page(f"Property({key})", "all", None, select=select, expand=expand)
        assert alone.pop("@odata.context").endswith(f"#Property{context}/$entity")
        assert alone == page["value"][0]
    for name, select in (("Member", "Media"), ("Property", "Teams"), ("Media", "Media")):
        assert (await odata.get(name, select=select)).problem == (400, "invalid-parameter", "$select")
