"""The wheel of the client: one import name, few dependencies, and a command that copies a feed without the server."""

import asyncio
import tomllib
import zipfile
from collections.abc import AsyncIterator
from email import message_from_bytes
from pathlib import Path

import orjson
import pytest

from brokerage_feed.records import RESOURCE_NAMES
from tests.architecture.graph import CLIENT, ROOT
from tests.consumer.conftest import ServedStandIn, copied
from tests.consumer.stand_in_service import KEY, StandInService
from tests.network.http import http
from tests.network.server import serving
from tests.packaging.wheels import build_wheel, install_wheels, requirements, run

_PROGRAM = """
import sys
from brokerage_feed import SyncFeed

with SyncFeed(sys.argv[1], sys.argv[2]) as feed:
    header, records = feed.snapshot("listings")
    print(*sorted(record.id for record in records))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network."""
    return build_wheel(CLIENT, tmp_path_factory.mktemp("client-wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the client and what it requires."""
    return install_wheels(tmp_path_factory.mktemp("client"), "brokerage-feed", wheel)


@pytest.fixture
async def served() -> AsyncIterator[ServedStandIn]:
    """A stand-in with a few records of each resource."""
    stand_in = StandInService()
    for name in RESOURCE_NAMES:
        for number in range(3):
            stand_in.put(name, f"{name[0]}{number}", number=number)
    async with serving(http(stand_in.reply)) as server:
        yield ServedStandIn(stand_in, server.url)


def test_it_has_one_import_name_and_every_file_of_it(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {name.partition("/")[0] for name in names} == {"brokerage_feed"}
    kept = (path for path in (CLIENT / "brokerage_feed").rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert names == {path.relative_to(CLIENT).as_posix() for path in kept}
    assert "brokerage_feed/py.typed" in names


def test_it_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (info,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    metadata = message_from_bytes(archive.read(f"{info}/METADATA"))
    assert (metadata["Name"], metadata["License-Expression"]) == ("brokerage-feed", "Apache-2.0")
    assert metadata["Requires-Python"] == ">=3.11"
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])


def test_it_needs_little() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    # A backport leaves with the Python that needs it.
    assert len([name for name in project["dependencies"] if "python_version <" not in name]) <= 4
    assert {*requirements("brokerage-feed")} & {"elasticsearch", "cryptography", "uvloop", "rich", "redis"} == set()


def test_its_environment_has_no_name_of_the_server(installed: Path, tmp_path: Path) -> None:
    names = ("brokerage", "indexer", "mappings", "service", "rich")
    look = f"import importlib.util as u; print(*(name for name in {names} if u.find_spec(name)))"
    assert run(installed / "python", "-c", look, cwd=tmp_path).stdout == b"\n"


async def test_its_command_copies_a_feed(installed: Path, served: ServedStandIn, tmp_path: Path) -> None:
    command = (installed / "brokerage-feed", "pull", tmp_path / "copy", "--url", served.url)
    done = await asyncio.to_thread(run, *command, cwd=tmp_path, BROKERAGE_API_KEY=KEY)
    assert (done.returncode, done.stderr) == (0, b"")
    assert copied(tmp_path / "copy") == served.stand_in.contents()
    outcomes = orjson.loads(done.stdout.splitlines()[-1])["resources"]
    assert {outcome["proof"] for outcome in outcomes.values()} == {"equal"}


async def test_its_library_reads_a_feed(installed: Path, served: ServedStandIn, tmp_path: Path) -> None:
    done = await asyncio.to_thread(run, installed / "python", "-c", _PROGRAM, served.url, KEY, cwd=tmp_path)
    assert (done.stdout, done.stderr) == (b"l0 l1 l2\n", b"")
