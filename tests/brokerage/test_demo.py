"""The demo from start to Ctrl-C, as a newcomer meets it."""

import json
import os
import re
import shlex
import signal
import socket
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

from elasticsearch import AsyncElasticsearch

from embedded import NodeOptions
from embedded.folders import DataFolder
from tests.brokerage.conftest import RunningCommand, run, running
from tests.neighbours import steady_port
from tests.waiting import wait_until

LAST_LINE = "Ctrl-C stops"


def _curls(output: str) -> list[list[str]]:
    """Return the words of each printed curl line."""
    return [shlex.split(line) for line in output.splitlines() if line.strip().startswith("curl ")]


def _do(words: list[str]) -> Any:
    """Do what `curl -H HEADER URL` does."""
    _, _, header, url = words
    name, _, value = header.partition(": ")
    with urllib.request.urlopen(urllib.request.Request(url, headers={name: value}), timeout=120) as answer:  # noqa: S310 - loopback
        return json.loads(answer.read())


def _started(demo: RunningCommand) -> list[list[str]]:
    return _curls(demo.read_until(LAST_LINE))


def _nodes_of(cache: Path) -> list[int]:
    """Return the node processes whose data is in a cache folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if "embedded.node_main" in command and str(cache) in command:
            found.append(int(path.parent.name))
    return found


def test_the_demo_answers_its_own_curl_lines_and_leaves_nothing_running(own_cache: dict[str, str]) -> None:
    """Twice: the second start uses the same data and key. One ends by Ctrl-C, the other is terminated."""
    cache = Path(own_cache["XDG_CACHE_HOME"])
    arguments = ("demo", "--port", str(steady_port()), "--listings", "300")
    starts, consoles = [], []
    for number in (signal.SIGINT, signal.SIGTERM):
        with running(*arguments, environment=own_cache) as demo:
            lines = _started(demo)
            starts.append((lines, "writing 300 sample listings" in demo.output))
            _check_answers(*map(_do, lines))
            consoles.append(_console(demo.output))
            _see_activity(lines[0], demo.output)
            _see_other_command(demo.output, own_cache)
            assert _nodes_of(cache)
            assert demo.stop(number) == 0
        assert "Traceback" not in demo.output
        assert _nodes_of(cache) == []
    (first_lines, first_wrote), (second_lines, second_wrote) = starts
    assert first_lines == second_lines
    assert (first_wrote, second_wrote) == (True, False)
    assert consoles[0] == consoles[1]


def _console(output: str) -> str:
    """Open the console as the last lines of a demo give its address; return the address."""
    (address,) = re.findall(r"^  (http://\S+/console)$", "\n".join(output.splitlines()[-8:]), re.MULTILINE)
    with urllib.request.urlopen(address, timeout=120) as answer:  # noqa: S310 - loopback
        assert b"<title>Console" in answer.read()
    return str(address)


def _see_other_command(output: str, environment: dict[str, str]) -> None:
    """Let another command use the cluster of the demo, with the variables that it prints."""
    [exported] = re.findall(r"^  export (.+)$", output, re.MULTILINE)
    variables = dict(variable.split("=", 1) for variable in exported.split())
    listed = run("keys", "list", environment=environment | variables)
    assert "demo of evergreen-realty" in listed.stdout, listed.stderr


def _see_activity(words: list[str], output: str) -> None:
    """See that files of the company shown are published, and that a price changes within the long poll."""
    curl, option, _, url = words
    root, company = url.partition("/listings")[0], "platform_company_id=evergreen-realty"
    [key] = re.findall(r"^  (bk_\S+)$", output, re.MULTILINE)[1:]
    [companies] = [_do([curl, option, f"x-api-key: {key}", f"{root}/companies"])]
    assert [found["platform_company_id"] for found in companies] == ["evergreen-realty"]

    def published() -> Any:
        with suppress(urllib.error.HTTPError):
            return _do([curl, option, f"x-api-key: {key}", f"{root}/exports/listings?{company}"])

    wait_until(published)
    token = published()["token"]
    wait_until(
        lambda: _do([curl, option, f"x-api-key: {key}", f"{root}/changes?{company}&since={token}&wait=5"])["changes"]
    )


def _check_answers(first: Any, following: Any, agent: Any) -> None:
    cursor = first["Listings"][-1]["PlatformListingId"]
    assert len(first["Listings"]) == len(following["Listings"]) == 2
    assert all(record["PlatformListingId"] > cursor for record in following["Listings"])
    assert agent["agent_uuid"]


def test_a_killed_demo_takes_its_node_with_it(own_cache: dict[str, str]) -> None:
    cache = Path(own_cache["XDG_CACHE_HOME"])
    with running("demo", "--port", str(steady_port()), "--listings", "20", environment=own_cache) as demo:
        _started(demo)
        os.kill(demo.process.pid, signal.SIGKILL)
        demo.process.wait()
    deadline = time.monotonic() + 120
    while _nodes_of(cache) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _nodes_of(cache) == []


def test_a_taken_port_is_reported_before_anything_is_started() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = run("demo", "--port", str(port), environment={})
    assert ended.returncode == 1
    assert ended.stderr == f"Cannot listen on 127.0.0.1:{port}: Address already in use. Choose another --port.\n"


def test_data_in_use_is_reported_with_the_variable_that_chooses_others(own_cache: dict[str, str]) -> None:
    root = Path(own_cache["XDG_CACHE_HOME"]) / "brokerage" / "data" / "demo"
    taken = DataFolder(NodeOptions(data=root))
    taken.open(1)
    try:
        ended = run("demo", "--port", str(steady_port()), environment=own_cache)
    finally:
        taken.close()
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"Error: the data folder {root} is in use by process {os.getpid()}: "
        "stop that one or choose another data folder with XDG_CACHE_HOME"
    )


async def test_the_demo_uses_a_given_cluster_under_names_of_its_own(
    client: AsyncElasticsearch, on_engine: dict[str, str], own_cache: dict[str, str]
) -> None:
    prefix = f"{on_engine['BROKERAGE_INDEX_PREFIX']}demo-"
    foreign = {f"{prefix}of-somebody-else", f"{prefix}orders-v0001"}
    for name in foreign:
        await client.indices.create(index=name)
    environment = {**on_engine, **own_cache}
    with running("demo", "--port", str(steady_port()), "--listings", "20", environment=environment) as demo:
        [first, *_] = _started(demo)
        assert _do(first)["Listings"]
        assert demo.stop(signal.SIGINT) == 0
    names = set(await client.indices.get(index=f"{on_engine['BROKERAGE_INDEX_PREFIX']}*"))
    assert foreign < names
    assert all(name.startswith(prefix) for name in names)
