"""The set of keys: whole from the start, renewed at little cost, kept through an outage, with room for damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from service.app import SERVICES, build_services
from service.keys.key_set import read_keys, read_version
from service.keys.key_text import KeyText, generate_key
from service.keys.record import ApiKey, DamagedKey
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.service.stand_in import refusal
from tests.waiting import until

if TYPE_CHECKING:
    from aiohttp.test_utils import TestClient
    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings
    from tests.service.conftest import Open
    from tests.service.stand_in import StandIn

AWAY = refusal(503, "no_shard_available_action_exception")
# What the set is read in; the other searches for keys are for its state.
WHOLE = 1_000
DAMAGE: dict[str, dict[str, Any]] = {
    "a member has another type": {"name": 123456789},
    "its companies are one text": {"companies": "acme"},
    "its digest cannot be compared": {"digest": "ü" * 64},
    "its expiry has no offset": {"expires": "2100-01-01T00:00:00"},
    "its rate is below nothing": {"rate": -123456789},
    "it is a copy of another": {"key_id": "abcdefghij"},
}


async def status(api: TestClient[Any, Any], key: str) -> int:
    """Return the status of a request that every key may make."""
    async with api.get("/v1/companies", headers={"x-api-key": key}) as response:
        return response.status


def documents(stand_in: StandIn) -> list[dict[str, Any]]:
    """Return the keys' documents, oldest first."""
    return [source for (index, _), source in stand_in.documents.items() if index == "api_keys"]


async def test_unused_keys_survive_an_outage_too(open_api: Open, stand_in: StandIn) -> None:
    keys = [stand_in.grant() for _ in range(3)]
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    stand_in.out(AWAY, "api_keys")
    assert [await status(api, key) for key in keys] == [200, 200, 200]
    assert [path for path, _ in stand_in.asked if path.startswith("/api_keys")] == []


async def test_an_outage_is_logged_once(open_api: Open, stand_in: StandIn, caplog: pytest.LogCaptureFixture) -> None:
    key = stand_in.grant()
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    for _ in range(2):
        stand_in.out(AWAY, "api_keys")
        assert [await status(api, key) for _ in range(3)] == [200, 200, 200]
        stand_in.replies.clear()
        assert await status(api, key) == 200
    assert caplog.text.count("a cached value could not be refreshed") == 2


async def test_the_set_is_read_again_only_when_a_key_has_changed(open_api: Open, stand_in: StandIn) -> None:
    key = stand_in.grant()
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    assert stand_in.keys_read == [WHOLE]
    for _ in range(3):
        assert await status(api, key) == 200
    assert set(stand_in.keys_read[1:]) == {1}
    documents(stand_in)[0]["revoked"] = "2020-01-01T00:00:00Z"
    assert await status(api, key) == 401
    assert stand_in.keys_read.count(WHOLE) == 2


async def test_the_set_is_renewed_without_requests(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(fresh_seconds=0.0)
    stand_in.grant()
    await until(lambda: stand_in.keys_read.count(WHOLE) == 2)
    assert await status(api, stand_in.keys[0]) == 200
    assert [path for path, _ in stand_in.asked if path.startswith("/api_keys")] == []


async def test_a_key_works_before_it_is_in_the_set(api: TestClient[Any, Any], stand_in: StandIn) -> None:
    assert await status(api, stand_in.grant()) == 200
    assert stand_in.keys_read.count(WHOLE) == 1


async def test_a_key_that_was_looked_up_and_is_then_deleted_stops_working(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0)
    key = stand_in.grant()
    assert await status(api, key) == 200
    stand_in.documents.clear()
    stand_in.grant()
    ring = api.app[SERVICES].keys
    await ring.warm()
    assert await status(api, key) == 401


async def test_few_wrong_keys_are_remembered(
    api: TestClient[Any, Any], stand_in: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.keys.ring._MAX_UNKNOWN_KEYS", 3)
    wrong = [generate_key() for _ in range(4)]
    for text in (*wrong, wrong[3], wrong[0]):
        assert await status(api, text.reveal()) == 401
    asked = [path.rpartition("/")[2] for path, _ in stand_in.asked]
    assert asked == [text.key_id for text in (*wrong, wrong[0])]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("is_in_set", [True, False])
async def test_a_damaged_key_harms_no_other(
    open_api: Open, stand_in: StandIn, caplog: pytest.LogCaptureFixture, damage: str, *, is_in_set: bool
) -> None:
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0)
    sound, damaged = stand_in.grant(), stand_in.grant()
    key_id = documents(stand_in)[1]["key_id"]
    documents(stand_in)[1].update(DAMAGE[damage])
    if is_in_set:
        await api.app[SERVICES].keys.warm()
    assert [await status(api, key) for key in (sound, damaged, damaged)] == [200, 401, 401]
    assert len([path for path, _ in stand_in.asked if path.startswith("/api_keys")]) == (0 if is_in_set else 2)
    (reported,) = [record for record in caplog.records if record.levelname == "ERROR"]
    assert key_id in reported.getMessage()
    assert "digest" not in reported.getMessage()
    assert [str(value) for value in DAMAGE[damage].values() if str(value) in reported.getMessage()] == []


async def test_damage_is_logged_once_however_often_the_set_is_read(
    open_api: Open, stand_in: StandIn, caplog: pytest.LogCaptureFixture
) -> None:
    sound, damaged = stand_in.grant(), stand_in.grant()
    documents(stand_in)[1]["name"] = 7
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    for change in range(3):
        documents(stand_in)[0]["note"] = str(change)
        assert [await status(api, key) for key in (sound, damaged)] == [200, 401]
    assert stand_in.keys_read.count(WHOLE) == 4
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


async def test_a_damaged_key_that_is_repaired_works_again(open_api: Open, stand_in: StandIn) -> None:
    key = stand_in.grant()
    documents(stand_in)[0]["name"] = 7
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    assert await status(api, key) == 401
    documents(stand_in)[0]["name"] = "seven"
    assert await status(api, key) == 200


class Shelf:
    """Keys on a real Elasticsearch, and the service's reading of them."""

    def __init__(self, client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
        """Nothing is there yet."""
        self.client = client
        self.index = connection.keys_index
        self.store = KeyStore(client, self.index)
        self.engine = build_services(client, ServiceSettings(), connection).engine

    async def create(self) -> KeyText:
        """Create a key."""
        return await self.store.create(KeyGrant("x", all_companies=True))


@pytest.fixture
async def shelf(client: AsyncElasticsearch, connection: ConnectionSettings) -> Shelf:
    """A shelf with two keys."""
    shelf = Shelf(client, connection)
    await shelf.create()
    await shelf.create()
    return shelf


async def test_the_set_is_read_in_pages(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.keys.key_set._PAGE_SIZE", 2)
    texts = [await shelf.create() for _ in range(3)]
    # Documents without the member that a search might sort by.
    await shelf.client.index(index=shelf.index, id="no-key", document={"name": "x"})
    await shelf.client.index(index=shelf.index, id="empty", document={}, refresh=True)
    keys, _ = await read_keys(shelf.engine, shelf.index)
    assert len(keys) == 7
    assert all(isinstance(keys[text.key_id], ApiKey) for text in texts)
    assert {key_id for key_id, key in keys.items() if isinstance(key, DamagedKey)} == {"no-key", "empty"}


async def test_the_state_reflects_every_change_and_nothing_else(shelf: Shelf) -> None:
    keys, state = await read_keys(shelf.engine, shelf.index)
    assert await read_version(shelf.engine, shelf.index) == state
    first, last = keys
    await shelf.store.revoke(first)
    revoked = await read_version(shelf.engine, shelf.index)
    await shelf.client.delete(index=shelf.index, id=last, refresh=True)
    deleted = await read_version(shelf.engine, shelf.index)
    assert len({state, revoked, deleted}) == 3
    assert (await read_keys(shelf.engine, shelf.index))[1] == deleted
    await shelf.client.indices.delete(index=shelf.index)
    await shelf.create()
    await shelf.create()
    again = await read_version(shelf.engine, shelf.index)
    assert (again.count, again.sequence, again.term) == (state.count, state.sequence, state.term)
    assert again != state


async def test_an_index_without_keys_has_a_state_too(shelf: Shelf) -> None:
    for key in await shelf.store.list_intact():
        await shelf.client.delete(index=shelf.index, id=key.key_id, refresh=True)
    keys, state = await read_keys(shelf.engine, shelf.index)
    assert (keys, state) == ({}, await read_version(shelf.engine, shelf.index))
