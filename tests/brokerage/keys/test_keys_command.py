"""`brokerage keys` on the real engine, and how soon the service follows."""

import asyncio
import json
from dataclasses import replace

import pytest
from aiohttp.test_utils import TestClient, TestServer
from click.testing import CliRunner, Result
from elasticsearch import AsyncElasticsearch

from brokerage.command import main
from cluster.connection import ConnectionSettings
from service.app import create_app
from service.keys.api_key import generate_key, parse_key
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.brokerage.conftest import run


def keys(*arguments: str, environment: dict[str, str]) -> Result:
    """Run `brokerage keys ARGUMENTS` in this process: starting another takes longer than most commands."""
    return CliRunner().invoke(main, ["keys", *arguments], env={"COLUMNS": "200", **environment})


def _created(environment: dict[str, str], *arguments: str) -> dict[str, str]:
    ended = keys("create", *arguments, "--json", environment=environment)
    assert ended.exit_code == 0, ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.mark.usefixtures("client")
def test_a_created_key_is_printed_once_and_listed_without_its_secret(on_engine: dict[str, str]) -> None:
    granted = ["--company", "acme", "--parent-company", "4100", "--rate", "unlimited"]
    arguments = [*granted, "--profile", "compatible", "--display", "idx", "--json"]
    created = json.loads(run("keys", "create", "North portal", *arguments, environment=on_engine).stdout)
    assert created.keys() == {"key_id", "key"}
    text = parse_key(created["key"])
    assert text is not None
    assert text.key_id == created["key_id"]
    listed = run("keys", "list", "--json", environment=on_engine)
    assert text.secret not in listed.stdout
    [row] = json.loads(listed.stdout)
    assert row == {
        "key_id": text.key_id,
        "name": "North portal",
        "created": row["created"],
        "companies": ["acme"],
        "parent_companies": ["4100"],
        "all_companies": False,
        "rate": None,
        "burst": None,
        "tier": None,
        "fields": None,
        "profile": "compatible",
        "display": "idx",
        "note": "",
        "expires": None,
        "revoked": None,
        "successor": None,
        "state": "active",
        "last_used": None,
    }


async def test_only_a_hash_is_stored(client: AsyncElasticsearch, on_engine: dict[str, str]) -> None:
    text = parse_key((await asyncio.to_thread(_created, on_engine, "x", "--all-companies"))["key"])
    assert text is not None
    answer = await client.search(index=f"{on_engine['BROKERAGE_INDEX_PREFIX']}api_keys")
    stored = json.dumps(answer.body)
    assert text.digest in stored
    assert text.secret not in stored


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["x"], "Choose what the key can read"),
        (["x", "--all-companies", "--company", "acme"], "--all-companies is mutually exclusive with --company"),
        (["x", "--all-companies", "--parent-company", "acme"], "--all-companies is mutually exclusive with --company"),
        (["x", "--company", "a b"], "'a b' is not a company"),
        (["x", "--all-companies", "--rate", "many"], "neither a number"),
        (["x", "--all-companies", "--display", "vow"], "'vow' is not 'idx'"),
        (["x", "--all-companies", "--profile", "other"], "'other' is not 'compatible'"),
        (["x", "--all-companies", "--rate", "5", "--tier", "gold"], "mutually exclusive"),
    ],
)
async def test_a_key_without_sense_is_refused(
    client: AsyncElasticsearch,
    connection: ConnectionSettings,
    on_engine: dict[str, str],
    arguments: list[str],
    complaint: str,
) -> None:
    ended = await asyncio.to_thread(keys, "create", *arguments, environment=on_engine)
    assert ended.exit_code == 2
    assert complaint in ended.stderr
    assert await KeyStore(client, connection.keys_index).list_all() == []


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize("command", ["show", "rotate", "revoke", "expire"])
def test_an_unknown_key_is_reported_in_one_sentence(on_engine: dict[str, str], command: str) -> None:
    ended = keys(command, "unknown", environment=on_engine)
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr == "There is no key 'unknown': `brokerage keys list` shows the ids.\n"


def test_a_whole_key_on_the_command_line_is_not_repeated(on_engine: dict[str, str]) -> None:
    text = generate_key()
    ended = keys("revoke", text.reveal(), environment=on_engine)
    assert ended.exit_code == 2
    assert f"Use its id: {text.key_id}" in ended.stderr
    assert text.secret not in ended.stdout + ended.stderr


@pytest.mark.usefixtures("client")
def test_companies_that_are_not_loaded_are_reported_but_accepted(on_engine: dict[str, str]) -> None:
    ended = keys("create", "x", "--company", "acme", environment=on_engine)
    assert (ended.exit_code, ended.stdout.startswith("bk_")) == (0, True)
    assert ended.stderr == "Note: company 'acme' is not loaded yet. The key can read it as soon as it is.\n"


async def test_a_key_is_rotated_expired_and_shown(
    client: AsyncElasticsearch, connection: ConnectionSettings, on_engine: dict[str, str]
) -> None:
    key_id = (await KeyStore(client, connection.keys_index).create(KeyGrant("first", all_companies=True))).key_id
    rotated = await asyncio.to_thread(keys, "rotate", key_id, "--overlap", "2w", "--json", environment=on_engine)
    second = json.loads(rotated.stdout)
    text = parse_key(second["key"])
    assert text is not None
    assert text.key_id == second["key_id"] != key_id
    assert (
        await asyncio.to_thread(keys, "expire", second["key_id"], "--at", "2099-06-30", environment=on_engine)
    ).stdout == (f"{second['key_id']} expires 2099-06-30 00:00 UTC\n")
    shown = (await asyncio.to_thread(keys, "show", key_id, environment=on_engine)).stdout
    assert f"replaced by  {second['key_id']}" in shown
    table = (await asyncio.to_thread(keys, "list", environment=on_engine)).stdout.splitlines()
    assert [line.split()[0] for line in table] == ["Key", key_id, second["key_id"]]
    assert "2099-06-30" in table[2]
    assert text.secret not in shown + str(table)


def test_a_cluster_that_is_away_is_reported_in_one_sentence() -> None:
    ended = run("keys", "list", environment={"ELASTICSEARCH_URL": "http://127.0.0.1:9"})
    assert ended.returncode == 3
    assert ended.stderr.count("\n") == 1
    assert "ELASTICSEARCH_URL" in ended.stderr


def test_a_missing_cluster_is_reported_in_one_sentence() -> None:
    ended = run("keys", "list", environment={})
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "brokerage node" in ended.stderr


@pytest.mark.usefixtures("client")
async def test_a_revoked_or_expired_key_stops_working_within_the_stated_age(
    connection: ConnectionSettings, on_engine: dict[str, str]
) -> None:
    settings = replace(ServiceSettings(), fresh_seconds=0.05, stale_seconds=0.1)
    revoked = await asyncio.to_thread(_created, on_engine, "revoked", "--all-companies")
    expired = await asyncio.to_thread(_created, on_engine, "expired", "--all-companies", "--expires", "2020-01-01")
    async with TestClient(TestServer(create_app(settings, connection))) as http:
        # A page of companies would need an index; an unknown parameter is judged behind the key.
        assert await _status(http, revoked["key"]) == 400
        assert await _status(http, expired["key"]) == 401
        assert (await asyncio.to_thread(keys, "revoke", revoked["key_id"], environment=on_engine)).exit_code == 0
        await asyncio.sleep(settings.stale_seconds)
        assert await _status(http, revoked["key"]) == 401


async def _status(http: TestClient, key: str) -> int:  # type: ignore[type-arg]
    async with http.get("/v1/companies?nothing=1", headers={"x-api-key": key}) as response:
        return response.status
