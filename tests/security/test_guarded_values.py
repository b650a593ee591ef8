"""Nothing that a key receives depends on the field groups that it may not see."""

import hashlib
import re
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer
from xxhash import xxh3_64_intdigest

from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from tests.feed import conftest as feed
from tests.feed.feed_client import company
from tests.indexer.conftest import Bench, bench
from tests.records import envelope

__all__ = ["bench"]

JsonObject = dict[str, Any]

# A watermark may be used at once, instead of after a second.
SETTINGS = replace(feed.SETTINGS, shared_seconds=0.0)
_LISTINGS = 12
_TYPES = ("percent", "dollar", None)
_VALUES = (*(f"{tenth / 10:.1f}" for tenth in range(20, 40)), None)
_GUESSES = tuple(product(_TYPES, _VALUES))
# What a hash of a listing leaves out: a raw TAB is in their place.
_VOLATILE = ("ModificationTimestamp", "VendorModificationTimestamp", "DaysOnMarket", "SharedPartnerData")
# The number of `Condo`, which every listing here is.
_PROPERTY_TYPE = 2
_AGENT = "0b0e6d3c-5f0d-4f35-9d3c-11111111111"
# All records in all forms that hold guarded values.
_RECORDS = (
    "listings?platform_company_id=a&updated_since=0",
    "listings?platform_company_id=a&updated_since=0&underscore_response=true",
    "listings/L1",
    "listings/L1?underscore_response=true",
    "agents?updated_since=0&include_access_level=true&include_partners=true",
    "agents?updated_since=0&include_access_level=true&include_partners=true&envelope=true",
    f"agents/{_AGENT}1?include_gci_goals=true&include_access_level=true&include_partners=true",
)
_PATHS = (
    *_RECORDS,
    "changes",
    "changes?changed=price,details",
    "snapshot/listings",
    "snapshot/agents",
    "digest/listings",
    "digest/agents",
    "listings?platform_company_id=a&updated_since=0&timestamps_only=true",
    "agents?updated_since=0&timestamps_only=true",
    "reso/Property",
    "reso/Member?$count=true",
    f"reso/Member('{_AGENT}1')",
    "reso/Property?$expand=ListAgent",
    "reso/Property('L1')/ListAgent",
    "reso/EntityEvent",
)
# A key without any field group.
_GRANT = KeyGrant("poor", companies=("a",), rate=None, fields=())
# A token is random, and with it the ETag of its response.
_TOKEN_KEYS = (b'"next":', b'"token":')
_PUBLISHED = re.compile(r'"as_of":"[^"]+"')
_EVENTS = re.compile(r'"EntityEventSequence":(\d+)')
_TOKENS = re.compile(r'"(?:next|token)":"[A-Za-z0-9_-]+"')


@dataclass(frozen=True)
class Hidden:
    """The values of the guarded members in one build."""

    seed: int

    def commission(self, number: int) -> tuple[str | None, str | None]:
        """Return type and value of a listing's commission."""
        return _GUESSES[(number * 7 + self.seed) % len(_GUESSES)]

    def listing(self, number: int) -> JsonObject:
        """Return the envelope of a listing."""
        kind, value = self.commission(number)
        record = {"PlatformListingId": f"L{number}", "ListPrice": number, "Status": "Active"}
        record |= {"ListAgentUUID": f"{_AGENT}1"}
        record |= {"BuyerCommissionType": kind, "BuyerCommissionValue": value}
        partner = {"attribute_1": f"deal {self.seed}", "attribute_2": None}
        return envelope(LISTING, record | {"SharedPartnerData": partner}, platform_company_id="a")

    def agent(self, number: int) -> JsonObject:
        """Return the envelope of an agent."""
        record: JsonObject = {
            "agent_uuid": f"{_AGENT}{number}",
            "platform_agent_id": f"p{number}",
            "access_level": f"level {self.seed}",
        }
        record |= {"view_level": f"view {self.seed}", "partners": [f"affiliate {self.seed}"]}
        rates = {"buyer_commission_rate": self.seed + 0.375, "seller_commission_rate": self.seed + 0.625}
        return envelope(AGENT, record | rates | {"gci_goal": 770_000 + self.seed}, platform_company_id="a")


@dataclass(frozen=True)
class Attacker:
    """A key that may not see everything, and what it knows."""

    http: TestClient[Any, Any]
    key: str
    accept: str = "*/*"

    async def read(self, path: str) -> tuple[dict[str, str], bytes]:
        """Return the headers and the body of a response that must be 200, uncompressed: tokens compress differently."""
        headers = {"x-api-key": self.key, "Accept-Encoding": "identity", "Accept": self.accept}
        async with self.http.get(f"/v1/{path}", headers=headers) as response:
            body = await response.read()
            assert response.status == 200, body
            return dict(response.headers), body

    async def json(self, path: str) -> JsonObject:
        """Return a body."""
        body: JsonObject = orjson.loads((await self.read(path))[1])
        return body

    async def lines(self, resource: str) -> list[JsonObject]:
        """Return the lines of a snapshot."""
        return [orjson.loads(line) for line in (await self.read(f"snapshot/{resource}"))[1].splitlines()]


def hashes_of_guess(line: JsonObject, guess: tuple[str | None, str | None]) -> Iterator[str]:
    """Yield what `content` is if a guess is right, for each way to hash a line without a secret."""
    kind, value = guess
    record = line["record"] | {"BuyerCommissionType": kind, "BuyerCommissionValue": value}
    plain = orjson.dumps(record)
    marked = orjson.dumps(record | dict.fromkeys(_VOLATILE, "?")).replace(b'"?"', b"\t")
    for encoded in (plain, marked):
        for context in ([line["company"], _PROPERTY_TYPE], [line["company"]]):
            yield f"{xxh3_64_intdigest(encoded, xxh3_64_intdigest(orjson.dumps(context))):016x}"


def recovered(line: JsonObject, contents: set[str]) -> set[tuple[str | None, str | None]]:
    """Return the guesses that one of the received hashes confirms."""
    return {guess for guess in _GUESSES if not contents.isdisjoint(hashes_of_guess(line, guess))}


@pytest.fixture
async def attacker(bench: Bench) -> AsyncIterator[Attacker]:
    """The service, and the key without any field group."""
    store = KeyStore(bench.client, bench.connection.keys_index)
    key = (await store.create(_GRANT)).reveal()
    await _build(bench, Hidden(0))
    async with TestClient(TestServer(create_app(SETTINGS, bench.connection))) as http:
        yield Attacker(http, key)


async def _build(bench: Bench, hidden: Hidden) -> None:
    listings = [hidden.listing(number) for number in range(_LISTINGS)]
    agents = [hidden.agent(number) for number in range(3)]
    sold = [envelope(SOLD_LISTING, platform_company_id="a")]
    sources = {COMPANY: [company("a")], LISTING: listings, SOLD_LISTING: sold, AGENT: agents}
    assert (await bench.build(sources, force=True)).exit_code == 0


async def test_guesses_of_a_commission_are_confirmed_by_nothing(attacker: Attacker) -> None:
    lines = (await attacker.lines("listings"))[1:-1]
    changes = orjson.loads((await attacker.read("changes"))[1])["changes"]
    fine = ",".join(sorted({hashlib.sha256(line["id"].encode()).hexdigest()[:4] for line in lines}))
    digest = orjson.loads((await attacker.read(f"digest/listings?prefixes={fine}"))[1])
    bucketed = {record["id"]: record["content"] for bucket in digest["buckets"] for record in bucket["records"]}
    changed = {change["id"]: change["content"] for change in changes if change["resource"] == "listings"}
    found = {
        line["id"]: guesses
        for line in lines
        if (guesses := recovered(line, {line["content"], bucketed[line["id"]], changed[line["id"]]}))
    }
    assert len(lines) == _LISTINGS
    assert found == {}


def _from_first_event(text: str) -> str:
    """Return the text with event numbers counted from the first: each installation begins at its own time."""
    numbers = [int(number) for number in _EVENTS.findall(text)]
    return _EVENTS.sub(lambda found: f'"EntityEventSequence":{int(found[1]) - numbers[0]}', text)


async def everything(attacker: Attacker, paths: Iterable[str]) -> dict[str, JsonObject]:
    """Return all that the key receives by path, without what may differ between two installations."""
    found = {}
    for path in paths:
        headers, body = await attacker.read(path)
        has_token = any(token in body for token in _TOKEN_KEYS)
        compared = {name: headers.get(name) for name in ("Content-Length", "ETag") if name != "ETag" or not has_token}
        text = _TOKENS.sub('"token":"…"', body.decode()).replace(str(attacker.http.port), "port")
        text = _from_first_event(text)
        found[path] = {"names": sorted(headers), **compared, "body": _PUBLISHED.sub("as_of", text)}
    return found


@pytest.mark.parametrize("seed", [1, 2])
async def test_installations_that_differ_in_hidden_values_only_look_the_same(
    attacker: Attacker, bench: Bench, seed: int
) -> None:
    """Bodies and their lengths, ETags, hashes, digests and sequence numbers."""
    before = await everything(attacker, _PATHS)
    prefix = f"{bench.connection.prefix}x"
    other = replace(bench, connection=replace(bench.connection, prefix=prefix))
    await _build(other, Hidden(seed))
    key = (await KeyStore(bench.client, other.connection.keys_index).create(_GRANT)).reveal()
    async with TestClient(TestServer(create_app(SETTINGS, other.connection))) as http:
        after = await everything(Attacker(http, key), _PATHS)
    for path in _PATHS:
        assert after[path] == before[path], path


# What betrays the values of a group in a body of the first build.
_TRACES = {
    "access_level": ("level 0", "view 0"),
    "commission": ("0.375", "0.625", '"percent"', '"2.0"'),
    "goals": ("770000",),
    "partner_data": ("deal 0", "affiliate 0"),
}


@pytest.mark.parametrize(
    "granted", [None, (), *((group,) for group in _TRACES), ("commission", "goals"), tuple(_TRACES)]
)
async def test_a_key_sees_the_groups_it_was_granted_and_of_the_others_no_trace(
    attacker: Attacker, bench: Bench, granted: tuple[str, ...] | None
) -> None:
    grant = replace(_GRANT, fields=granted)
    key = (await KeyStore(bench.client, bench.connection.keys_index).create(grant)).reveal()
    text = "".join([(await replace(attacker, key=key).read(path))[1].decode() for path in _RECORDS])
    seen = {group: {trace in text for trace in traces} for group, traces in _TRACES.items()}
    assert seen == {group: {granted is None or group in granted} for group in _TRACES}
