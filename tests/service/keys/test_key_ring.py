"""The set of keys: whole from the start, renewed at little cost, kept through an outage, with room for damage."""

from typing import Any

import pytest
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from service.app import build_services
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.service.api_client import services_of, status
from tests.service.conftest import Open
from tests.service.stand_in import StandIn, refusal
from tests.waiting import until

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
    assert WHOLE in stand_in.keys_read[1:]


async def test_the_set_is_renewed_without_requests(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(fresh_seconds=0.0)
    stand_in.grant()
    await until(lambda: stand_in.keys_read.count(WHOLE) == 2)
    assert await status(api, stand_in.keys[0]) == 200
    assert [path for path, _ in stand_in.asked if path.startswith("/api_keys")] == []


async def test_a_new_key_works_at_once(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0)
    for _ in range(2):
        assert await status(api, stand_in.grant()) == 200


async def test_a_deleted_key_stops_working(open_api: Open, stand_in: StandIn) -> None:
    api = await open_api(fresh_seconds=3600.0, stale_seconds=3600.0)
    key = stand_in.grant()
    assert await status(api, key) == 200
    stand_in.documents.clear()
    stand_in.grant()
    ring = services_of(api).keys
    await ring.warm()
    assert await status(api, key) == 401


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
        await services_of(api).keys.warm()
    assert [await status(api, key) for key in (sound, damaged, damaged)] == [200, 401, 401]
    assert [path for path, _ in stand_in.asked if path.startswith("/api_keys")] == []
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
    assert stand_in.keys_read.count(WHOLE) >= 4
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


async def test_a_damaged_key_that_is_repaired_works_again(open_api: Open, stand_in: StandIn) -> None:
    key = stand_in.grant()
    documents(stand_in)[0]["name"] = 7
    api = await open_api(fresh_seconds=0.0, stale_seconds=0.0)
    assert await status(api, key) == 401
    documents(stand_in)[0]["name"] = "seven"
    assert await status(api, key) == 200


async def test_keys_that_no_search_can_sort_are_read_too(
    client: AsyncElasticsearch, reader: AsyncElasticsearch, connection: ConnectionSettings
) -> None:
    store = KeyStore(client, connection.keys_index, connection.usage_index)
    texts = [await store.create(KeyGrant("x", all_companies=True)) for _ in range(2)]
    for key_id, document in (("no-key", {"name": "x"}), ("empty", {})):
        await client.index(index=connection.keys_index, id=key_id, document=document, refresh=True)
    keys = build_services(reader, ServiceSettings(), connection).keys
    await keys.renew()
    assert keys.cached_keys().keys() == {"no-key", "empty", *(text.key_id for text in texts)}
    assert (keys.recall("empty"), keys.recall("no-key")) == (None, None)
    assert all(keys.recall(text.key_id) for text in texts)
    await store.revoke(texts[0].key_id)
    await keys.renew()
    assert [bool(getattr(keys.recall(text.key_id), "revoked", None)) for text in texts] == [True, False]
