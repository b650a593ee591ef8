"""`brokerage keys` on the real engine, and how soon the service follows."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiohttp.test_utils import TestClient, TestServer

from service.app import create_app
from service.keys.text import parse
from service.settings import ServiceSettings
from tests.brokerage.conftest import run

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings


def _created(environment: dict[str, str], *arguments: str) -> dict[str, str]:
    ended = run("keys", "create", *arguments, "--json", environment=environment)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.mark.usefixtures("client")
def test_a_created_key_is_printed_once_and_listed_without_its_secret(on_engine: dict[str, str]) -> None:
    created = _created(
        on_engine, "North portal", "--company", "acme", "--parent-company", "4100", "--rate", "unlimited"
    )
    text = parse(created["key"])
    assert text is not None
    assert text.key_id == created["key_id"]
    listed = run("keys", "list", "--json", environment=on_engine)
    assert text.secret not in listed.stdout
    [row] = json.loads(listed.stdout)
    assert (row["name"], row["scope"], row["rate"], row["state"]) == (
        "North portal",
        "acme, 4100 and children",
        "unlimited",
        "active",
    )


async def test_only_a_hash_is_stored(client: AsyncElasticsearch, on_engine: dict[str, str]) -> None:
    text = parse(_created(on_engine, "x", "--all-companies")["key"])
    assert text is not None
    answer = await client.search(index=f"{on_engine['BROKERAGE_INDEX_PREFIX']}api_keys")
    stored = json.dumps(answer.body)
    assert text.digest in stored
    assert text.secret not in stored


@pytest.mark.usefixtures("client")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["x"], "Say what the key may read"),
        (["x", "--company", "a b"], "'a b' is not a company"),
        (["x", "--all-companies", "--rate", "many"], "neither a number"),
        (["x", "--all-companies", "--expires", "soon"], "no ISO 8601 time"),
    ],
)
def test_a_key_without_sense_is_refused(on_engine: dict[str, str], arguments: list[str], complaint: str) -> None:
    ended = run("keys", "create", *arguments, environment=on_engine)
    assert ended.returncode == 2
    assert complaint in ended.stderr
    assert json.loads(run("keys", "list", "--json", environment=on_engine).stdout) == []


@pytest.mark.usefixtures("client")
def test_a_time_of_expiry_is_kept_with_its_offset(on_engine: dict[str, str]) -> None:
    _created(on_engine, "a", "--all-companies", "--expires", "2099-06-30T12:00:00+02:00")
    _created(on_engine, "b", "--all-companies", "--expires", "2099-06-30")
    listed = json.loads(run("keys", "list", "--json", environment=on_engine).stdout)
    assert [row["expires"] for row in listed] == ["2099-06-30T12:00:00+02:00", "2099-06-30T00:00:00+00:00"]


@pytest.mark.usefixtures("client")
def test_revoking_an_unknown_key_fails_with_one_sentence(on_engine: dict[str, str]) -> None:
    ended = run("keys", "revoke", "nobody", environment=on_engine)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "There is no key 'nobody': `brokerage keys list` shows the ids.\n"


def test_a_cluster_that_is_away_is_told_in_one_sentence() -> None:
    ended = run("keys", "list", environment={"ELASTICSEARCH_URL": "http://127.0.0.1:9"})
    assert ended.returncode == 3
    assert ended.stderr.count("\n") == 1
    assert "ELASTICSEARCH_URL" in ended.stderr


def test_no_cluster_at_all_is_told_in_one_sentence() -> None:
    ended = run("keys", "list", environment={})
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert "brokerage node" in ended.stderr


@pytest.mark.usefixtures("client")
async def test_a_revoked_or_expired_key_stops_working_within_the_stated_age(
    connection: ConnectionSettings, on_engine: dict[str, str]
) -> None:
    settings = replace(ServiceSettings(), fresh_seconds=0.05, stale_seconds=0.1)
    revoked = _created(on_engine, "revoked", "--all-companies")
    expired = _created(on_engine, "expired", "--all-companies", "--expires", "2020-01-01")
    async with TestClient(TestServer(create_app(settings, connection))) as http:
        # A page of companies would need an index; an unknown parameter is judged behind the key.
        assert await _status(http, revoked["key"]) == 400
        assert await _status(http, expired["key"]) == 401
        assert run("keys", "revoke", revoked["key_id"], environment=on_engine).returncode == 0
        await asyncio.sleep(settings.stale_seconds)
        assert await _status(http, revoked["key"]) == 401


async def _status(http: TestClient, key: str) -> int:  # type: ignore[type-arg]
    async with http.get("/v1/companies?nothing=1", headers={"x-api-key": key}) as response:
        return response.status
