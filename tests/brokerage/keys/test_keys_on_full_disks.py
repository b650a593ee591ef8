"""`brokerage keys` and `brokerage index` on a node of its own whose disks seem full.

Every command of keys works, commands that load say that disks are full, and what blocks one is named.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from elasticsearch import ApiError, AsyncElasticsearch, AuthorizationException

from brokerage.index import index
from cluster.connection import ConnectionSettings
from cluster.index_state import FLOOD_BLOCK_SETTING, BlockedIndex, is_flood_block, refusal_reason
from embedded import EmbeddedCluster, NodeOptions
from mappings import COMPANY
from service.keys.api_key import ApiKey
from service.keys.store import KeyGrant, KeyStore
from tests.brokerage.keys.test_keys_command import keys
from tests.records import envelope, write
from tests.waiting import until_true

_WATERMARK = "cluster.routing.allocation.disk.watermark"
# More than any disk has.
_FULL = {f"{_WATERMARK}.{name}": "1000tb" for name in ("low", "high", "flood_stage")}
_GRANT = KeyGrant("x", all_companies=True)


@pytest.fixture(scope="module")
def engine_url() -> Iterator[str]:
    """The address of a node that checks its disks every ten seconds."""
    settings = {"cluster.info.update.interval": "10s"}
    with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=512, settings=settings)) as cluster:
        yield cluster.url


@pytest.fixture
async def store(client: AsyncElasticsearch, connection: ConnectionSettings) -> KeyStore:
    store = KeyStore(client, connection.keys_index, connection.usage_index)
    await store.create(_GRANT)
    return store


@pytest.fixture
async def full_disks(client: AsyncElasticsearch, connection: ConnectionSettings) -> AsyncIterator[None]:
    """Watermarks that declare the disks full: from now on Elasticsearch removes no block. The index is blocked."""
    await client.cluster.put_settings(persistent=_FULL)
    await block(client, connection)
    yield
    await client.cluster.put_settings(persistent=dict.fromkeys(_FULL))


async def block(client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
    """Set the block that Elasticsearch sets when it next checks its disks."""
    await client.indices.put_settings(index=connection.keys_index, settings={FLOOD_BLOCK_SETTING: True})


async def until_blocked(client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
    """Wait until Elasticsearch has set the block again."""

    async def is_blocked() -> bool:
        try:
            await client.index(index=connection.keys_index, id="other", document={})
        except ApiError as error:
            return is_flood_block(refusal_reason(error))
        return False

    await until_true(is_blocked)


async def run(on_engine: dict[str, str], *arguments: str) -> Result:
    """Run `brokerage keys ARGUMENTS`."""
    return await asyncio.to_thread(lambda: keys(*arguments, environment=on_engine))


@pytest.mark.usefixtures("store", "full_disks")
async def test_each_command_works_at_the_flood_stage(
    client: AsyncElasticsearch,
    connection: ConnectionSettings,
    store: KeyStore,
    on_engine: dict[str, str],
    amount: Callable[[int, int], int],
) -> None:
    (first,), made = await store.list_intact(), dict[str, Any]()
    for arguments in (
        ["revoke", first.key_id],
        ["create", "new", "--all-companies", "--json"],
        ["rotate", "NEW", "--json"],
        ["expire", "NEW", "--at", "2099-01-01"],
    ):
        # The second takes half a minute.
        await (block, until_blocked)[amount(0, 1)](client, connection)
        ended = await run(
            on_engine, *(made.get("key_id", "") if argument == "NEW" else argument for argument in arguments)
        )
        assert ended.exit_code == 0, ended.stderr
        assert "Note: disks of Elasticsearch are full." in ended.stderr
        made = json.loads(ended.stdout) if "--json" in arguments else made
    revoked, created = await store.get_key(first.key_id), await store.get_key(made["key_id"])
    assert isinstance(revoked, ApiKey)
    assert isinstance(created, ApiKey)
    assert revoked.revoked is not None
    assert created.expires is not None


@pytest.mark.parametrize("kind", ["write", "read_only"])
async def test_a_block_of_an_administrator_is_named_and_stays(
    client: AsyncElasticsearch,
    connection: ConnectionSettings,
    store: KeyStore,
    on_engine: dict[str, str],
    kind: str,
) -> None:
    (key,) = await store.list_intact()
    await client.indices.put_settings(index=connection.keys_index, settings={f"index.blocks.{kind}": True})
    ended = await run(on_engine, "revoke", key.key_id)
    await client.indices.put_settings(index=connection.keys_index, settings={f"index.blocks.{kind}": None})
    assert (ended.exit_code, ended.stdout) == (3, "")
    assert f"Elasticsearch rejects writes: index [{connection.keys_index}] blocked by: [FORBIDDEN/" in ended.stderr
    assert "The key still works. To have the service refuse it now, add its id" in ended.stderr
    assert "BROKERAGE_REVOCATION_LIST" in ended.stderr


@pytest.mark.usefixtures("store", "full_disks")
async def test_a_user_without_the_privilege_gets_a_remedy(store: KeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    async def forbid(client: AsyncElasticsearch, index: str) -> None:
        await client.indices.get(index=index)
        raise AuthorizationException("security_exception", meta=None, body={})  # type: ignore[arg-type]

    monkeypatch.setattr("cluster.index_state.lift_flood_block", forbid)
    (key,) = await store.list_intact()
    with pytest.raises(BlockedIndex, match=r"lacks the privilege `manage`.*set index\.blocks\.read_only_allow_delete"):
        await store.revoke(key.key_id)


async def test_commands_that_load_end_with_3(
    client: AsyncElasticsearch, on_engine: dict[str, str], tmp_path: Path
) -> None:
    source = write(tmp_path / "source", {COMPANY: [envelope(COMPANY)]})
    given = on_engine | {"BROKERAGE_DEAD_LETTER_DIR": str(tmp_path)}

    async def load(command: str) -> Result:
        return await asyncio.to_thread(CliRunner().invoke, index, [command, str(source)], env=given)

    assert (await load("reindex")).exit_code == 0
    await client.cluster.put_settings(persistent=_FULL)
    refused = [await load("update"), await load("reindex")]
    await client.cluster.put_settings(persistent=dict.fromkeys(_FULL))
    for ended in refused:
        assert (ended.exit_code, ended.stderr) == (
            3,
            "Elasticsearch rejects writes while disks are full: no data node is below its flood stage (1000tb). Free "
            "disk space.\n",
        )


def test_a_revocation_without_elasticsearch_names_the_list() -> None:
    ended = keys("revoke", "abcdefghij", environment={"ELASTICSEARCH_URL": "http://127.0.0.1:9"})
    assert ended.exit_code == 3
    assert "BROKERAGE_REVOCATION_LIST" in ended.stderr
