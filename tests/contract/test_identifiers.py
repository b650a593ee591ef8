"""One alphabet: whatever identifier the indexer accepts, every operation finds again."""

import random
import unicodedata
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import NAMESPACE_URL, uuid5

import orjson
import pytest
from yarl import URL

from mappings import AGENT, COMPANY, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from mappings.fields import MAX_BYTES, is_identifier
from service.feed.parameters import FeedKeyParameter
from service.keys.store import KeyGrant
from tests.contract.conftest import open_world
from tests.contract.world import World
from tests.records import COMPANY_KEY, envelope, write

# The edges of everything that separates, quotes, escapes, folds or orders identifiers somewhere on their way.
PIECES = [
    *"aZ09-_.:;,'\"%&?#+=@!~$^*()[]{}<>|\\`",
    *(
        "..",
        "%2F",
        "%00",
        "%",
        "''",
        "\\u0041",
        "null",
        "true",
        "/",
        " ",
        "\t",
        "\n",
        "\x00",
        "\x7f",
        "\x80",
        "\x85",
        "\x9f",
    ),
    *("\xa0", "\xad", "\u0130", "\xdf", "\u017f", "e\u0301", "\xe9", "\u1e9e", "\u200b", "\u200f", "\u2028", "\u202e"),
    *("\ufeff", "\ufffd", "\uffff", "\ud7ff", "\ue000", "\U0001f600", "\U0010ffff", "\u0660"),
    *("acme:", "acme/", ":", "$count", "Property", "a" * 60, "\U0001f600" * 40),
]
SHOWN: dict[Resource, str] = {
    LISTING: "listings",
    SOLD_LISTING: "sold_listings",
    AGENT: "agents",
    OFFICE: "offices",
    TEAM: "teams",
}
RESO_KEYS = {LISTING: ("Property", "ListingKey"), AGENT: ("Member", "MemberKey"), OFFICE: ("Office", "OfficeKey")}


def candidates(count: int, seed: int = 20) -> list[str]:
    """Return distinct texts of up to twelve pieces, each piece alone among them, and both normal forms of many."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    found = dict.fromkeys(PIECES)
    while len(found) < count:
        text = "".join(chance.choices(PIECES, k=chance.randint(1, chance.choice([3, 12]))))
        found |= dict.fromkeys([text, unicodedata.normalize(chance.choice(["NFC", "NFD"]), text)])
        found |= dict.fromkeys([text.upper()] if chance.random() < 0.1 else [])
    return list(found)


def identified(resource: Resource, name: str) -> dict[str, Any]:
    """Return the record of a name; agents have UUIDs, in either case."""
    if resource is AGENT:
        uuid = str(uuid5(NAMESPACE_URL, name.encode("utf-8", "surrogatepass").hex()))
        name = uuid.upper() if len(name) % 2 else uuid
    return envelope(resource, {resource.identifier: name})


@pytest.fixture(scope="module")
async def odd(
    engine_url: str, tmp_path_factory: pytest.TempPathFactory, amount: Callable[[int, int], int]
) -> AsyncIterator[World]:
    """The service over records of all resources with hostile identifiers; those that are refused are dead letters."""
    source: Path = tmp_path_factory.mktemp("identifiers") / "source"
    names = candidates(amount(150, 4_200))
    lines: dict[Resource, Any] = {COMPANY: [envelope(COMPANY)]}
    write(source, lines | {resource: [identified(resource, name) for name in names] for resource in SHOWN})
    grants = {"all": KeyGrant("all", all_companies=True, rate=None)}
    async with open_world(engine_url, source, grants, dead_letter_limit=1.0) as opened:
        yield opened


async def snapshot(world: World, resource: Resource, **parameters: str) -> list[str]:
    """Return the identifiers in a snapshot."""
    headers = {"x-api-key": world.keys["all"]}
    async with world.http.get(f"/v1/snapshot/{resource.alias}", params=parameters, headers=headers) as response:
        assert response.status == 200, parameters
        lines = [orjson.loads(line) for line in (await response.read()).splitlines()]
    return [line["id"] for line in lines if "id" in line]


async def shown(world: World, path: str) -> tuple[int, Any]:
    """Ask for a path that is already escaped."""
    url = URL(f"{world.http.make_url('/v1')}{path}", encoded=True)
    async with world.http.session.get(url, headers={"x-api-key": world.keys["all"]}) as response:
        return response.status, orjson.loads(await response.read())


@pytest.mark.parametrize("resource", SHOWN, ids=SHOWN.values())
async def test_every_accepted_identifier_is_shown(odd: World, resource: Resource) -> None:
    accepted = await snapshot(odd, resource)
    sent = {line["record"][resource.identifier] for line in odd.source[resource.alias]}
    assert set(accepted) == {resource.canonical_identifier(name) for name in sent} - {None}
    for identifier in accepted:
        status, body = await shown(odd, f"/{SHOWN[resource]}/{quote(identifier, safe='')}")
        assert (status, body.get(resource.identifier)) == (200, identifier), identifier
    print(f"{len(accepted):,} identifiers of {resource.alias}: 0 unreachable")


@pytest.mark.parametrize("resource", [LISTING, SOLD_LISTING], ids=["listings", "sold_listings"])
async def test_every_accepted_identifier_is_a_cursor(odd: World, resource: Resource) -> None:
    scope = {"platform_company_id": COMPANY_KEY, "updated_since": 0, "page_size": 1}
    scope |= {"market_status": "all"} if resource is LISTING else {}
    walked = await odd.walk(f"/{resource.alias}", **scope)
    assert [record["PlatformListingId"] for record in walked] == sorted(await snapshot(odd, resource), key=str.encode)


async def test_every_accepted_identifier_resumes_a_snapshot(odd: World) -> None:
    identifiers = await snapshot(odd, LISTING)
    for identifier in identifiers:
        position = f"{COMPANY_KEY}:{identifier}"
        assert FeedKeyParameter("").parse_text(position) == (COMPANY_KEY, identifier)
    for place in range(0, len(identifiers), len(identifiers) // 60 + 1):
        rest = await snapshot(odd, LISTING, after=f"{COMPANY_KEY}:{identifiers[place]}")
        assert rest == identifiers[place + 1 :]


@pytest.mark.parametrize("resource", SHOWN, ids=SHOWN.values())
async def test_every_accepted_identifier_is_in_the_changes(odd: World, resource: Resource) -> None:
    token, told = None, set[str]()
    while True:
        page = await odd.answer("/changes", since=token, resources=resource.alias, page_size=100)
        told |= {change["id"] for change in page["changes"]}
        token = page["next"]
        if page["at_end"]:
            break
    assert told == set(await snapshot(odd, resource))


@pytest.mark.parametrize("resource", RESO_KEYS, ids=["Property", "Member", "Office"])
async def test_every_accepted_identifier_is_a_key_of_odata(odd: World, resource: Resource) -> None:
    entity_set, key = RESO_KEYS[resource]
    for identifier in await snapshot(odd, resource):
        literal = quote("'" + identifier.replace("'", "''") + "'", safe="")
        status, body = await shown(odd, f"/reso/{entity_set}({literal})")
        assert (status, body.get(key)) == (200, identifier), identifier
        status, body = await shown(odd, f"/reso/{entity_set}?$filter={key}%20eq%20{literal}")
        assert (status, [row[key] for row in body.get("value", [])]) == (200, [identifier]), identifier


def test_the_alphabet_at_its_edges() -> None:
    good = ["a", "...", ".a", "a" * 128, "\u00e9" * 128, "\U0001f600" * 111, "a:b", "%2F", "\u00a0", "'"]
    bad = [
        "",
        ".",
        "..",
        " ",
        "a b",
        "a/b",
        "a\n",
        "\x00",
        "\x7f",
        "\x80",
        "\x9f",
        "\ud800",
        "a" * 129,
        "\U0001f600" * 112,
    ]
    assert [text for text in good if not is_identifier(text)] == [text for text in bad if is_identifier(text)] == []
    assert MAX_BYTES == 447


async def test_an_agent_is_found_by_a_long_identifier_behind_its_company(odd: World) -> None:
    reply = await odd.get("/listings", platform_company_id=COMPANY_KEY, platform_agent_id=f"{COMPANY_KEY}:{'x' * 128}")
    assert "there is no agent" in str(reply.body["errors"])
