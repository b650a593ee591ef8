"""`brokerage pull` as its users run it: exit codes, streams, files, signals."""

import asyncio
import os
import pty
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from brokerage_feed.private_files import lock_folder
from brokerage_feed.records import RESOURCE_NAMES as RESOURCES
from tests.consumer.conftest import COMMAND, ServedStandIn, change_copy, command, copied, run
from tests.consumer.stand_in_service import KEY, respond_with
from tests.terminal import read_to_end
from tests.waiting import until


def summary(out: str) -> dict[str, Any]:
    """Return the resources of the last line."""
    event = orjson.loads(out.splitlines()[-1])
    assert event["event"] == "summary"
    resources: dict[str, Any] = event["resources"]
    return resources


async def test_exit_codes_and_sentences(served: ServedStandIn, tmp_path: Path) -> None:
    where = (tmp_path / "copy", "--url", served.url)
    key_file = tmp_path / "key"
    key_file.write_text(KEY + "\n")
    code, out, err = await run(*where, "--key-file", key_file, key=None)
    assert (code, err) == (0, "")
    assert {name: one["proof"] for name, one in summary(out).items()} == dict.fromkeys(RESOURCES, "equal")
    assert copied(tmp_path / "copy") == served.stand_in.contents()

    change_copy(tmp_path / "copy", "DELETE FROM listings_records WHERE id = 'l2'")
    code, out, err = await run(*where)
    assert (code, summary(out)["listings"]["different"]) == (5, ["l2"])

    code, _, err = await run(*where, key=None)
    assert code == 2
    assert "There is no API key: set BROKERAGE_API_KEY, or use" in err
    code, out, err = await run(*where, key=KEY[::-1])
    assert (code, err) == (1, "/v1/changes returned 401 unauthorized: Made up.\n")
    assert KEY[::-1] not in out
    with lock_folder(tmp_path / "copy"):
        assert await run(*where) == (4, "", f"Another pull is using {tmp_path / 'copy'}.\n")
    served.stand_in.faults = [respond_with(503, "overloaded", **{"Retry-After": "0"})] * 2
    code, _, err = await run(*where, BROKERAGE_PULL_ATTEMPTS="2")
    assert (code, err) == (
        3,
        "No valid response in 2 attempts. The last error: /v1/changes returned 503 overloaded: Made up.\n",
    )


@pytest.mark.parametrize(
    "url", ["127.0.0.1:1", "api.example.com/v1", "localhost:8080", "ftp://127.0.0.1", "https://", "http://["]
)
async def test_what_is_no_url_ends_with_2_and_leaves_no_copy(tmp_path: Path, url: str) -> None:
    code, out, err = await run(tmp_path / "copy", "--url", url)
    assert (code, out) == (2, "")
    assert err == f"{url} is not the URL of a service: use one such as https://api.example.com.\n"
    assert not (tmp_path / "copy").exists()


async def test_a_copy_that_has_received_nothing_takes_another_url(served: ServedStandIn, tmp_path: Path) -> None:
    code, _, err = await run(tmp_path, "--url", "http://127.0.0.1:1", BROKERAGE_PULL_ATTEMPTS="1")
    assert (code, err.startswith("No valid response in 1 attempts.")) == (3, True)
    code, _, err = await run(tmp_path, "--url", served.url, "--resources", "agents")
    assert (code, err) == (0, "")
    code, _, err = await run(tmp_path, "--url", "http://127.0.0.1:1")
    assert (code, err.endswith("use another folder.\n")) == (1, True)


async def test_the_scope_is_requested(served: ServedStandIn, tmp_path: Path) -> None:
    options = ("--company", "acme", "--parent-company", "holding", "--market-status", "on-market")
    code, _, err = await run(
        tmp_path, "--url", served.url, *options, "--include-deactivated", "--resources", "listings,agents"
    )
    assert (code, err) == (0, "")
    expected = {
        "platform_company_id": "acme",
        "parent_company_id": "holding",
        "market_status": "on-market",
        "include_deactivated": "true",
    }
    assert all(query.items() >= expected.items() for _, query in served.stand_in.asked)
    assert {path.split("/")[3] for path, _ in served.stand_in.asked if path != "/v1/changes"} == {"agents", "listings"}
    code, _, err = await run(tmp_path, "--url", served.url)
    assert code == 1
    assert f"is a copy of {served.url} platform_company_id=acme" in err


async def test_an_export_is_rewritten_where_something_changed(served: ServedStandIn, tmp_path: Path) -> None:
    where = (tmp_path, "--url", served.url, "--format", "ndjson")
    assert (await run(*where))[0] == 0
    written = {name: (tmp_path / f"{name}.ndjson").stat() for name in RESOURCES}
    served.stand_in.put("agents", "a0", number="é")
    assert (await run(*where))[0] == 0
    again = {name: (tmp_path / f"{name}.ndjson").stat() for name in RESOURCES}
    assert [name for name in RESOURCES if written[name].st_ino != again[name].st_ino] == ["agents"]
    lines = [orjson.loads(line) for line in (tmp_path / "agents.ndjson").read_bytes().splitlines()]
    assert [(line["id"], line["content"], line["record"]) for line in lines] == [
        (entry.id, entry.content, entry.record) for entry in served.stand_in.live("agents")
    ]
    assert not [name for name in map(str, await asyncio.to_thread(tmp_path.glob, "*")) if name.endswith(".part")]


async def test_following_goes_on_until_it_is_stopped(served: ServedStandIn, tmp_path: Path) -> None:
    stand_in = served.stand_in

    def held() -> object:
        with closing(sqlite3.connect(tmp_path / "copy.sqlite3")) as connection:
            return connection.execute("SELECT count(*) FROM sold_listings WHERE id = 's99'").fetchone()[0]

    async with command(tmp_path, "--url", served.url, "--follow", BROKERAGE_PULL_ATTEMPTS="1") as process:
        await until(lambda: any(path == "/v1/digest/sold_listings" for path, _ in stand_in.asked))
        stand_in.put("sold_listings", "s99")
        await until(held)
        asked = len(stand_in.asked)
        process.send_signal(signal.SIGTERM)
        _, err = await process.communicate()
    assert process.returncode == 143
    assert err == b"Stopped: the copy is consistent, and the same command resumes.\n"
    assert [query["wait"] for path, query in stand_in.asked[:asked] if "wait" in query]


async def test_a_terminal_sees_a_sentence_for_each_resource_and_what_to_try(
    served: ServedStandIn, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    environment = os.environ | {"BROKERAGE_API_KEY": KEY, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "pull", str(tmp_path), "--url", served.url), stdout=theirs, env=environment
    )
    os.close(theirs)
    shown = await asyncio.to_thread(read_to_end, ours)
    os.close(ours)
    assert await process.wait() == 0
    assert "listings: 7 records (from a snapshot), identical to the service" in shown
    assert f"Try: sqlite3 {tmp_path}/copy.sqlite3 " in shown
    assert KEY not in shown
