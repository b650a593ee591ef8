"""A server in a thread of its own: read by a process while its data changes, gone for a while, waited for."""

from __future__ import annotations

import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import orjson
import pytest

from tests.reso.changes import Change, Changes, changing
from tests.reso.serving import outage, served
from tests.reso.settings import Settings
from tests.reso.store import Store
from tests.reso.world import make_world

if TYPE_CHECKING:
    from tests.reso.ledger import Visit

_READER = """
import json, sys, urllib.parse, urllib.request
root, keys, last = sys.argv[1], [], ""
while True:
    where = urllib.parse.quote(f"ListingKey gt '{last}'")
    url = f"{root}/Property?$filter={where}&$orderby=ListingKey&$select=ListingKey&$top=20"
    page = json.load(urllib.request.urlopen(url))
    if not page["value"]:
        break
    keys += [row["ListingKey"] for row in page["value"]]
    last = keys[-1].replace("'", "''")
print(json.dumps(keys))
"""

_STALLED = """
import sys, time, urllib.request
answer = urllib.request.urlopen(sys.argv[1])
answer.read(1)
time.sleep(60)
"""


def test_a_process_reads_while_the_data_changes() -> None:
    world = make_world(1, properties=500, media=500, open_houses=100)
    with served(Settings(), world) as server:
        before = set(server.keys("Property"))
        with changing(Changes(server, 1), a_second=500) as changes:
            done = subprocess.run([sys.executable, "-c", _READER, server.url], capture_output=True, check=True)  # noqa: S603 - its own program
        found = orjson.loads(done.stdout)
        assert before & set(server.keys("Property")) <= set(found)
        assert server.ledger.requests["Property"] >= 25
        assert changes.made


class _Failing(Changes):
    """Changes of which the first fails."""

    failed = threading.Event()

    def step(self) -> Change:
        """Fail."""
        self.failed.set()
        raise LookupError


def test_changes_that_fail_in_their_thread_fail_the_test() -> None:
    failing = _Failing(Store(Settings()), 1)
    with pytest.raises(LookupError), changing(failing, a_second=1_000):
        assert failing.failed.wait(60)


def test_what_goes_wrong_inside_the_server_fails_the_test() -> None:
    def wrong(_visit: Visit) -> None:
        raise LookupError

    def ask() -> None:
        with served() as server:
            server.on_request = wrong
            with pytest.raises(urllib.error.HTTPError, match="500"):
                urllib.request.urlopen(server.url)  # noqa: S310 - an address of its own

    with pytest.raises(LookupError):
        ask()


def test_a_reader_that_is_killed_in_the_middle_of_an_answer_harms_nobody() -> None:
    with served(Settings(default_page=2_000)) as server:
        for number in range(2_000):
            server.put("Office", {"OfficeKey": str(number), "OfficeBio": "x" * 2_000})
        url = f"{server.url}/Office"
        reader = subprocess.Popen([sys.executable, "-c", _STALLED, url])  # noqa: S603 - its own program
        server.ledger.wait(1, seconds=60)
        reader.kill()
        reader.wait()
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - an address of its own
            assert len(orjson.loads(answer.read())["value"]) == 2_000


def test_an_outage_refuses_connections_and_ends_on_the_same_port() -> None:
    with served() as server:
        url = f"{server.url}/Office"
        server.put("Office", {"OfficeKey": "a"})
        with outage(server), pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url)  # noqa: S310 - an address of its own
        with urllib.request.urlopen(url) as answer:  # noqa: S310 - an address of its own
            assert len(orjson.loads(answer.read())["value"]) == 1


def test_requests_can_be_waited_for() -> None:
    with served() as server:
        with pytest.raises(TimeoutError):
            server.ledger.wait(1, seconds=0)
        with urllib.request.urlopen(server.url + "/Office"):  # noqa: S310 - an address of its own
            server.ledger.wait(1, seconds=60)
