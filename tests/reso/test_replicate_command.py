"""`brokerage index replicate` as an operator meets it: output, sentences, exit codes, two at once, signals, status."""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson
import pytest

from brokerage.settings_types import settings_types
from cluster.settings import describe_settings
from indexer.reso.settings import ResoSettings
from tests.indexer.command.test_command import Outcome, environment, lines, run
from tests.indexer.conftest import Bench
from tests.reso.expected_index import ACME, differences
from tests.reso.replication_bench import COMPANY_MAP
from tests.reso.server.reso_server import ResoServer
from tests.reso.server.running import serve_in_thread
from tests.reso.server.server_settings import ServerFault, ServerSettings
from tests.reso.sync.open_mirror import small_world
from tests.waiting import until_true

TOKEN = "the-very-token"
_PATIENCE_SECONDS = 120


def settings(folder: Path, **changes: str) -> dict[str, str]:
    usual = {"BROKERAGE_RESO_RATE": "1000", "BROKERAGE_RESO_TOKEN": TOKEN, "BROKERAGE_DEAD_LETTER_LIMIT": "1"}
    # What is written before the first run is loaded, not followed as well.
    usual["BROKERAGE_RESO_EVENT_MARGIN"] = "0"
    return usual | {"BROKERAGE_RESO_DIR": str(folder / "replicas"), **changes}


def command(server: ResoServer, folder: Path, *options: str) -> list[str]:
    (path := folder / "mls.toml").write_text(COMPANY_MAP)
    return ["replicate", server.url, "--company", ACME, "--map", str(path), *options]


async def replicate(bench: Bench, server: ResoServer, folder: Path, *options: str, **changes: str) -> Outcome:
    """Run the command to its end; return exit code, standard output, and all that it says in sentences."""
    code, out, err = await run(bench, *command(server, folder, *options, "--json"), **settings(folder, **changes))
    return code, out, err + notes(out)


def notes(out: str) -> str:
    return "".join(f"{event['note']}\n" for event in lines(out) if event["event"] == "note")


async def test_a_source_is_loaded_and_followed_and_status_says_so(bench: Bench, tmp_path: Path) -> None:
    with serve_in_thread(ServerSettings(token=TOKEN), small_world()) as server:
        code, out, err = await replicate(bench, server, tmp_path)
        assert code == 0, err
        *progress, summary = lines(out)
        assert {"Property", "Media", "listings"} <= {event.get("resource") for event in progress}
        assert (summary["event"], summary["exit_code"]) == ("summary", 0)
        assert summary["keys_checked"] > 1_700_000_000_000
        assert summary["resources"]["listings"]["stage"] == "swapped"
        assert "Property: 12 read, 12 changed." in err
        assert re.search(r"^\d+ requests, \d+\.\d MB from the source\.$", err, flags=re.MULTILINE)
        assert await differences(bench, server) == {}

        server.patch("Property", server.keys("Property")[0], City="Elsewhere")
        server.delete("Media", server.keys("Media")[0])
        code, out, err = await replicate(bench, server, tmp_path)
        assert (code, lines(out)[-1]["exit_code"]) == (0, 0)
        assert "Property: 1 read, 1 changed." in err
        assert "Media: 0 read, 1 removed." in err
        code, _, err = await replicate(bench, server, tmp_path)
        assert (code, err) == (0, "")
        assert TOKEN not in out + err

        code, out, err = await run(bench, "status")
        assert re.search(
            rf"^{server.url} +{ACME} +events +\d\d-\d\d \d\d:\d\d +\d:\d\d:\d\d +\d:\d\d:\d\d +50 +0 *$",
            out,
            re.MULTILINE,
        ), out
        code, out, err = await run(bench, "status", "--json")
        (source,) = next(state["sources"] for state in orjson.loads(out) if state["sources"])
        assert (source["source"], source["company"], source["followed_by"]) == (server.url, ACME, "events")
        assert (source["due"], source["complaint"], source["records"]["Property"]) == (0, None, 12)
        assert source["at"] >= source["complete"] - 2000
        assert source["at"] - 600_000 < source["keys_checked"] <= source["at"]


async def test_wrong_use_ends_with_2_and_a_sentence_without_the_token(bench: Bench, tmp_path: Path) -> None:
    with serve_in_thread(ServerSettings(token="another"), small_world()) as server:
        code, _, err = await replicate(bench, server, tmp_path)
        assert (code, TOKEN in err) == (2, False)
        assert err.rstrip().endswith("Check BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_CLIENT_SECRET.")
        for changes, said in (
            ({"BROKERAGE_RESO_TOKEN_URL": server.token_url}, "Set BROKERAGE_RESO_TOKEN or BROKERAGE_RESO_TOKEN_URL"),
            ({"BROKERAGE_RESO_RATE": "0"}, "BROKERAGE_RESO_RATE=0.0 cannot be used: it must be more than 0."),
            ({"BROKERAGE_RESO_RATES": "1"}, "BROKERAGE_RESO_RATE"),
            ({"BROKERAGE_RESO_DIR": "/proc/nowhere"}, "BROKERAGE_RESO_DIR=/proc/nowhere cannot be used"),
        ):
            code, out, err = await replicate(bench, server, tmp_path, **changes)
            assert (code, out, said in err, err.count("\n")) == (2, "", True, 1), err
        code, _, err = await replicate(bench, server, tmp_path, "--map", str(tmp_path / "nowhere.toml"))
        assert (code, "nowhere.toml cannot be opened" in err) == (2, True)


async def test_a_file_that_is_not_a_mirror_is_reported(bench: Bench, tmp_path: Path) -> None:
    with serve_in_thread(ServerSettings(token=TOKEN), small_world()) as server:
        await replicate(bench, server, tmp_path)
        (file,) = (tmp_path / "replicas").glob("*.sqlite")
        for value in (tmp_path / "replicas").glob("*.sqlite*"):
            value.unlink()
        file.write_bytes(b"no database at all" * 1000)
        code, _, err = await replicate(bench, server, tmp_path)
        assert (code, err) == (2, "The mirror in BROKERAGE_RESO_DIR cannot be used: file is not a database.\n")


async def test_bad_records_and_refused_removals_end_with_1_and_say_so(bench: Bench, tmp_path: Path) -> None:
    with serve_in_thread(ServerSettings(token=TOKEN), small_world()) as server:
        bad = (server.get("Property", server.keys("Property")[0]) or {}) | {"ListingKey": "k" * 200}
        server.put("Property", bad)
        options, changes = ("--changes", "timestamps"), {"BROKERAGE_RESO_RECONCILE_HOURS": "0"}
        code, out, err = await replicate(bench, server, tmp_path, *options, **changes)
        report = next(report for report in lines(out)[-1]["resources"].values() if report["dead"])
        said = f"1 of {report['read']} {report['resource']} are invalid and were not loaded: see "
        assert (code, f"{said}{report['dead_letters']}." in err) == (1, True), err
        server.delete("Property", "k" * 200)
        for key in server.keys("Media")[:12]:
            server.delete("Media", key)
        code, out, err = await replicate(bench, server, tmp_path, *options, **changes)
        assert (code, lines(out)[-1]["exit_code"]) == (1, 1)
        assert "Media: the source lacks 12 of 16 known records, more than the share of 0.05" in err


async def is_replicated(bench: Bench, server: ResoServer) -> bool:
    return await differences(bench, server) == {}


async def test_two_at_once_end_with_4_and_a_signal_with_its_sentence(bench: Bench, tmp_path: Path) -> None:
    with serve_in_thread(ServerSettings(token=TOKEN), small_world()) as server:
        program = [sys.executable, "-c", "from brokerage.index import index\nindex()"]
        given = os.environ | environment(bench, **settings(tmp_path, BROKERAGE_RESO_POLL_SECONDS="0.2"))
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - it is only begun here, and is ours
            [*program, *command(server, tmp_path, "--follow", "--json")],
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            # Two rounds more than the first.
            await asyncio.to_thread(server.ledger.wait, 60, _PATIENCE_SECONDS)
            code, _, err = await replicate(bench, server, tmp_path)
            assert (code, err.startswith("Another run is replicating into ")) == (4, True)
            server.patch("Property", server.keys("Property")[0], City="Elsewhere")
            await until_true(partial(is_replicated, bench, server))
            # With the first request of the next round, the one that published it has been reported.
            before = len(server.ledger.visits)
            await asyncio.to_thread(server.ledger.wait, before + 1, _PATIENCE_SECONDS)
            process.send_signal(signal.SIGTERM)
            out, said = await asyncio.to_thread(process.communicate, timeout=_PATIENCE_SECONDS)
        finally:
            process.kill()
            process.wait()
        text = notes(out.decode()) + said.decode()
        assert process.returncode == 143
        assert text.endswith("Stopped: progress is kept, and the same command resumes.\n")
        assert re.search(r"^\d\d:\d\d:\d\d Property: 1 read, 1 changed\.$", text, flags=re.MULTILINE)
        assert "Traceback" not in text
        assert TOKEN not in text
        assert await differences(bench, server) == {}


@pytest.mark.usefixtures("short_delays")
async def test_a_source_that_stays_away_ends_with_2_and_says_what_it_waited_for(bench: Bench, tmp_path: Path) -> None:
    with serve_in_thread(ServerSettings(token=TOKEN), small_world()) as server:
        server.faults.plan(ServerFault.BROKEN, times=10**6, resource="Media")
        # Long enough for a retry: the first comes after at most a hundredth of a second.
        changes = {"BROKERAGE_RESO_PATIENCE_SECONDS": "5"}
        code, _, err = await replicate(bench, server, tmp_path, **changes)
        assert code == 2
        assert "Media: no usable response from the source. Last error: Media returned 500: Internal error." in err
        waits = re.findall(
            r"^Media: Media returned 500: Internal error\. Request (\d+) for \S*/Media failed, "
            r"the next is sent in \d+ s; after \d s the run ends\.$",
            err,
            re.MULTILINE,
        )
        assert [int(number) for number in waits] == [*range(1, len(waits) + 1)]
        failed = sum(visit.fault is ServerFault.BROKEN for visit in server.ledger.visits)
        assert len(waits) == failed - 1
        assert f"{failed} requests for " in err
        assert "BROKERAGE_RESO_PATIENCE_SECONDS is how long they are repeated" in err
        server.faults.clear()
        assert (await replicate(bench, server, tmp_path))[0] == 0
        assert await differences(bench, server) == {}


async def test_a_run_that_waits_says_so_on_its_terminal_while_its_progress_goes_to_a_file(
    bench: Bench, tmp_path: Path
) -> None:
    with serve_in_thread(ServerSettings(token=TOKEN), small_world()) as server:
        server.faults.plan(ServerFault.BROKEN, times=10**6, resource="Property")
        given = settings(tmp_path, BROKERAGE_RESO_PATIENCE_SECONDS="5")
        reading, terminal = pty.openpty()
        process = subprocess.Popen(  # noqa: ASYNC220, S603 - it is only begun here, and is ours
            [sys.executable, "-c", "from brokerage.index import index\nindex()", *command(server, tmp_path, "--json")],
            env=os.environ | environment(bench, **given),
            stdout=subprocess.DEVNULL,
            stderr=terminal,
        )
        os.close(terminal)
        try:
            assert await asyncio.to_thread(process.wait, _PATIENCE_SECONDS) == 2
        finally:
            process.kill()
            process.wait()
        said = os.read(reading, 65_536).decode()
        os.close(reading)
    assert "Property: Property returned 500: Internal error. Request 1 for " in said
    assert "no usable response from the source" in said


async def test_what_a_licence_does_not_cover_is_left_out_and_said_until_it_does(bench: Bench, tmp_path: Path) -> None:
    beyond, world = frozenset({"OpenHouse", "Teams", "TeamMembers"}), small_world()
    with (
        serve_in_thread(ServerSettings(token=TOKEN, withheld=beyond | {"EntityEvent"}), world) as server,
        serve_in_thread(world=world) as covered,
    ):
        for name in beyond:
            for key in covered.keys(name):
                covered.delete(name, key)
        code, _, err = await replicate(bench, server, tmp_path)
        assert code == 1, err  # since open houses are missing
        for name in beyond:
            assert f"{name} returned 403: Your licence does not cover {name}. {name} is not read." in err
        assert (
            "EntityEvent returned 403: Your licence does not cover EntityEvent. The source is followed by times" in err
        )
        assert await differences(bench, covered) == {}

        server.settings = replace(server.settings, withheld=frozenset())
        code, _, err = await replicate(bench, server, tmp_path)
        assert (code, "403" in err) == (0, False), err
        assert await differences(bench, server) == {}

        server.settings = replace(server.settings, withheld=frozenset({"Media"}))
        server.patch("Media", server.keys("Media")[0], Order=99)
        code, _, err = await replicate(bench, server, tmp_path)
        assert (code, err) == (2, "Media returned 403: Your licence does not cover Media.\n")


@pytest.mark.parametrize("name", ["Property", "EntityEvent"])
async def test_what_nothing_can_be_done_without_must_be_covered(bench: Bench, tmp_path: Path, name: str) -> None:
    with serve_in_thread(ServerSettings(token=TOKEN, withheld=frozenset({name})), small_world()) as server:
        code, _, err = await replicate(bench, server, tmp_path, "--changes", "events")
        assert (code, err) == (2, f"{name} returned 403: Your licence does not cover {name}.\n")


def test_settings_are_shown_with_their_secrets_masked() -> None:
    assert ResoSettings in settings_types({})
    given = {"BROKERAGE_RESO_TOKEN": TOKEN, "BROKERAGE_RESO_CLIENT_SECRET": TOKEN, "BROKERAGE_RESO_RATE": "5"}
    shown = {value.variable: value.value for value in describe_settings(ResoSettings, given)}
    assert (shown["BROKERAGE_RESO_TOKEN"], shown["BROKERAGE_RESO_CLIENT_SECRET"]) == ("********", "********")
    assert shown["BROKERAGE_RESO_RATE"] == "5.0"
    assert TOKEN not in repr(ResoSettings(token=TOKEN, client_secret=TOKEN))
