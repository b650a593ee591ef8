"""What becomes of a key on the real engine: rotated, expired, revoked, damaged, and edited by two at once."""

import asyncio
import datetime as dt
from typing import Any

import msgspec
import pytest
from elasticsearch import AsyncElasticsearch

from brokerage.keys import unknown_companies
from cluster.connection import ConnectionSettings
from mappings import COMPANY
from mappings.indices import index_body
from mappings.visibility import DisplayLicence
from service.keys.api_key import ApiKey, DamagedKey
from service.keys.store import KeyGrant, KeyStore, UnchangeableKey, UnknownKey
from tests.internals import Internals

WEEK = dt.timedelta(days=7)
SOON = dt.datetime(2099, 1, 1, tzinfo=dt.UTC)
FULL = KeyGrant(
    "full",
    companies=("acme",),
    parent_companies=("4100",),
    rate=None,
    expires=SOON,
    burst=20,
    tier="gold",
    fields=("commission",),
    note="Ask Jo",
    profile="compatible",
    display=DisplayLicence.IDX,
)


@pytest.fixture
def store(client: AsyncElasticsearch, connection: ConnectionSettings) -> KeyStore:
    return KeyStore(client, connection.keys_index, connection.usage_index)


async def get_key(store: KeyStore, key_id: str) -> ApiKey:
    key = await store.get_key(key_id)
    assert isinstance(key, ApiKey)
    return key


def granted(key: ApiKey) -> dict[str, Any]:
    """Return what a key may do, with its name and note."""
    return {name: getattr(key, name) for name in FULL.__dataclass_fields__ if name != "expires"}


async def test_all_of_a_grant_is_stored(store: KeyStore) -> None:
    key = await get_key(store, (await store.create(FULL)).key_id)
    assert granted(key) == {name: getattr(FULL, name) for name in granted(key)}
    assert key.expires == SOON


async def test_a_rotation_makes_a_second_key_and_lets_the_first_expire(store: KeyStore) -> None:
    first = (await store.create(FULL)).key_id
    began = dt.datetime.now(dt.UTC)
    second = await store.rotate(first, WEEK)
    old, new = await get_key(store, first), await get_key(store, second.key_id)
    assert granted(old) == granted(new)
    assert (old.successor, new.successor, new.expires) == (second.key_id, None, SOON)
    assert new.digest == second.digest != old.digest
    assert old.expires is not None
    assert began + WEEK <= old.expires <= dt.datetime.now(dt.UTC) + WEEK
    assert old.is_usable(began)


async def test_without_overlap_the_first_ends_at_once(store: KeyStore) -> None:
    first = (await store.create(FULL)).key_id
    await store.rotate(first, dt.timedelta())
    assert not (await get_key(store, first)).is_usable(dt.datetime.now(dt.UTC))


async def test_a_rotation_lengthens_no_life(store: KeyStore) -> None:
    ends = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    first = (await store.create(KeyGrant("x", all_companies=True, expires=ends))).key_id
    await store.rotate(first, WEEK)
    assert (await get_key(store, first)).expires == ends


async def test_of_two_rotations_at_once_one_is_refused_and_leaves_nothing(store: KeyStore) -> None:
    first = (await store.create(FULL)).key_id
    made = await asyncio.gather(*(store.rotate(first, WEEK) for _ in range(2)), return_exceptions=True)
    (refused,) = [result for result in made if isinstance(result, Exception)]
    assert isinstance(refused, UnchangeableKey)
    (text,) = [result for result in made if not isinstance(result, BaseException)]
    assert {key.key_id for key in await store.list_intact()} == {first, text.key_id}
    assert (await get_key(store, first)).successor == text.key_id


@pytest.mark.parametrize("end", ["revoked", "expired", "rotated"])
async def test_a_key_that_has_ended_is_not_rotated(store: KeyStore, end: str) -> None:
    first = (await store.create(FULL)).key_id
    if end == "revoked":
        await store.revoke(first)
    elif end == "expired":
        await store.expire(first, dt.datetime.now(dt.UTC))
    else:
        await store.rotate(first, WEEK)
    before = await store.list_all()
    with pytest.raises(UnchangeableKey, match=end if end == "rotated" else "revoked or has expired"):
        await store.rotate(first, WEEK)
    assert await store.list_all() == before


async def test_an_expiry_is_set_and_taken_away(store: KeyStore) -> None:
    key_id = (await store.create(FULL)).key_id
    for moment in (dt.datetime(2020, 1, 1, tzinfo=dt.UTC), None, SOON):
        await store.expire(key_id, moment)
        assert (await get_key(store, key_id)).expires == moment


async def test_revoked_is_for_good(store: KeyStore) -> None:
    key_id = (await store.create(FULL)).key_id
    await store.revoke(key_id)
    at = (await get_key(store, key_id)).revoked
    await store.revoke(key_id)
    with pytest.raises(UnchangeableKey, match="permanently"):
        await store.expire(key_id, None)
    assert (await get_key(store, key_id)).revoked == at is not None


async def test_two_who_change_a_key_at_once_lose_nothing(store: KeyStore) -> None:
    key_id = (await store.create(KeyGrant("x", all_companies=True))).key_id
    await asyncio.gather(store.revoke(key_id), store.expire(key_id, SOON), return_exceptions=True)
    key = await get_key(store, key_id)
    assert key.revoked is not None
    key_id = (await store.create(KeyGrant("x", all_companies=True))).key_id
    both = await asyncio.gather(store.expire(key_id, SOON), store.rotate(key_id, WEEK))
    key = await get_key(store, key_id)
    assert key.successor == both[1].key_id


async def test_a_command_that_always_loses_the_race_reports_it(
    store: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_id = (await store.create(FULL)).key_id
    replaced = KeyStore._replace

    async def overtaken(self: KeyStore, found: dict[str, Any], document: dict[str, Any]) -> bool:
        assert await replaced(self, found, found["_source"])
        return await replaced(self, found, document)

    monkeypatch.setattr(KeyStore, "_replace", overtaken)
    with pytest.raises(UnchangeableKey, match="try again"):
        await store.revoke(key_id)
    assert (await get_key(store, key_id)).revoked is None


async def test_what_a_newer_version_has_stored_stays(
    client: AsyncElasticsearch, connection: ConnectionSettings, store: KeyStore
) -> None:
    key_id = (await store.create(FULL)).key_id
    document = msgspec.to_builtins(await get_key(store, key_id)) | {"colour": "red"}
    await client.index(index=connection.keys_index, id=key_id, document=document, refresh=True)
    await store.revoke(key_id)
    found = await client.get(index=connection.keys_index, id=key_id)
    assert found["_source"]["colour"] == "red"


async def test_damaged_keys_are_listed_behind_the_others_and_can_be_revoked(
    client: AsyncElasticsearch, connection: ConnectionSettings, store: KeyStore
) -> None:
    first = (await store.create(FULL)).key_id
    copy = msgspec.to_builtins(await get_key(store, first))
    await client.index(index=connection.keys_index, id="copy", document=copy, refresh=True)
    second = (await store.create(FULL)).key_id
    assert [key.key_id for key in await store.list_all()] == [first, second, "copy"]
    assert [key.key_id for key in await store.list_intact()] == [first, second]
    assert isinstance(await store.get_key("copy"), DamagedKey)
    for change in (store.rotate("copy", WEEK), store.expire("copy", None)):
        with pytest.raises(UnchangeableKey, match="is damaged"):
            await change
    await store.revoke("copy")
    assert (await client.get(index=connection.keys_index, id="copy"))["_source"]["revoked"]


async def test_before_the_first_key_there_is_nothing(store: KeyStore) -> None:
    assert (await store.list_all(), await store.last_used()) == ([], {})
    with pytest.raises(UnknownKey):
        await store.revoke("x")


async def test_all_keys_are_listed_however_many_there_are(store: KeyStore, internals: Internals) -> None:
    internals(keys_page=2)
    made = [(await store.create(FULL)).key_id for _ in range(5)]
    await store.revoke(made[0])
    assert [key.key_id for key in await store.list_intact()] == made


async def test_companies_are_known_by_key_and_number(
    client: AsyncElasticsearch, connection: ConnectionSettings
) -> None:
    named = ["acme", "41", "gone", "unknown"]
    assert await unknown_companies(client, connection, named) == named
    body: dict[str, Any] = index_body(COMPANY)
    await client.indices.create(index=connection.alias(COMPANY), **body)
    for company, number, is_deleted in (("acme", "40", False), ("other", "41", False), ("gone", "42", True)):
        document = {"id": company, "numeric_id": number, "deleted": is_deleted}
        await client.index(index=connection.alias(COMPANY), id=company, document=document, refresh=True)
    assert await unknown_companies(client, connection, named) == ["gone", "unknown"]
