"""`brokerage doctor` as a process: its findings, their remedies, and its exit codes."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from elasticsearch import AsyncElasticsearch

from brokerage.command import main
from cluster.connection import ConnectionSettings
from mappings import LISTING
from tests.brokerage.conftest import run
from tests.network.server import answering, serving
from tests.network.threads import in_thread
from tests.service.index_sandbox import IndexSandbox
from tests.service.limits.redis_server import RedisServer

ESCAPE = "\x1b["
PAGE = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\n<html/>"
# Other tests on the same engine make the cluster yellow or red, and disks are this machine's.
OTHERS = {"cluster", "disks"}


def problems(output: str) -> dict[str, dict[str, Any]]:
    found = json.loads(output)
    return {
        finding["subject"]: finding
        for finding in found
        if finding["state"] != "ok" and finding["subject"] not in OTHERS
    }


def findings(environment: dict[str, str], code: int) -> dict[str, dict[str, Any]]:
    """Return the faults found by a run within this process that ends with a code."""
    ours = {name: None for name in os.environ if name.startswith(("BROKERAGE_", "ELASTICSEARCH_"))}
    ended = CliRunner().invoke(main, ["doctor", "--json"], env={**ours, **environment})
    assert ended.exit_code == code, ended.output
    return problems(ended.stdout)


async def test_a_sound_installation_passes_and_each_fault_is_reported(
    client: AsyncElasticsearch, connection: ConnectionSettings, on_engine: dict[str, str]
) -> None:
    sandbox = IndexSandbox(client, connection)
    await sandbox.fill()
    found = run("doctor", "--json", environment={**on_engine, "BROKERAGE_DEADLINE": "3"})
    assert found.returncode == 1
    (unknown_name,) = problems(found.stdout).values()
    assert unknown_name["remedy"] == "Did you mean BROKERAGE_DEADLINE_SECONDS?"

    screen = run("doctor", environment={**on_engine, "FORCE_COLOR": "1"})
    assert screen.returncode == 0
    assert ESCAPE in screen.stdout
    assert screen.stdout.rstrip().endswith("The service can serve.")

    old = await sandbox.make(LISTING, without="status")
    await sandbox.point({LISTING: (old,)})
    screen = run("doctor", environment=on_engine)
    assert screen.returncode == 0  # only requests that use the missing field are refused
    assert ESCAPE not in screen.stdout
    lines = [line.split(maxsplit=2) for line in screen.stdout.splitlines()]
    (listings,) = [line for line in lines if line[:2] == ["warning", "listings"]]
    assert old in listings[2]
    assert ["ok", "sold_listings"] in [line[:2] for line in lines]
    assert "shards" in [line[1] for line in lines if len(line) > 1]
    assert "-> Rebuild it with this version: `brokerage index reindex SOURCE listings`." in screen.stdout
    assert screen.stdout.rstrip().endswith("The service can serve.")


def test_an_empty_installation_is_reported_with_the_command_that_fills_it(on_engine: dict[str, str]) -> None:
    found = findings(on_engine, 1)
    assert {subject: finding["state"] for subject, finding in found.items()} == {"indices": "wrong", "keys": "warning"}
    assert all("`brokerage " in finding["remedy"] for finding in found.values())
    assert on_engine["BROKERAGE_INDEX_PREFIX"] in found["indices"]["detail"]


def test_a_cluster_that_is_away_is_3() -> None:
    ended = run("doctor", "--json", environment={"ELASTICSEARCH_URL": "http://127.0.0.1:9"})
    assert ended.returncode == 3
    found = problems(ended.stdout)
    assert found.keys() == {"elasticsearch"}
    assert "Connect call failed" in found["elasticsearch"]["detail"]
    assert "ELASTICSEARCH_URL" in found["elasticsearch"]["remedy"]


def test_redis_is_reported_even_if_the_cluster_is_away(tmp_path: Path) -> None:
    redis = RedisServer(tmp_path)
    redis.start()
    environment = {"ELASTICSEARCH_URL": "http://127.0.0.1:9", "BROKERAGE_REDIS_URL": redis.url}
    try:
        assert findings(environment, 3).keys() == {"elasticsearch"}
    finally:
        redis.stop()
    found = findings(environment, 3)["redis"]
    assert (found["state"], found["problem"]) == ("warning", "does not work")
    assert found["detail"].startswith("ConnectionError. ")
    assert "BROKERAGE_REDIS_URL" in found["remedy"]


def test_a_server_other_than_elasticsearch_is_reported() -> None:
    with in_thread(serving(answering(PAGE))) as server:
        found = findings({"ELASTICSEARCH_URL": server.url}, 1)
    assert found["elasticsearch"]["problem"] == "the server is not Elasticsearch"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "ELASTICSEARCH_URL is not set"),
        ({"ELASTICSEARCH_URL": "http://127.0.0.1:9", "BROKERAGE_WORKERS": "many"}, "BROKERAGE_WORKERS='many'"),
        ({"ELASTICSEARCH_URL": "http://127.0.0.1:9", "BROKERAGE_MERGE_AFTER_BUILD": "perhaps"}, "MERGE_AFTER_BUILD"),
    ],
)
def test_invalid_settings_are_reported_and_end_it(environment: dict[str, str], said: str) -> None:
    found = findings(environment, 1)
    assert found.keys() == {"settings"}
    assert said in found["settings"]["detail"]


def test_no_secret_is_printed() -> None:
    secrets = {"BROKERAGE_ELASTICSEARCH_API_KEY": "very-secret", "BROKERAGE_ELASTICSEARCH_PASSWORD": "hush-hush"}
    found = str(findings({"ELASTICSEARCH_URL": "http://127.0.0.1:9", **secrets}, 1))
    assert "must be set together" in found
    assert "very-secret" not in found
    assert "hush-hush" not in found
