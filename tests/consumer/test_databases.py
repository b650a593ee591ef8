"""The programs that the guide gives for PostgreSQL and MySQL, against real servers and the real service."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql
import pytest

from bench.peers.running import postgres
from bench.programs import ending
from embedded.node_options import free_ports
from indexer import rollback
from mappings import LISTING
from service.site.pages import PAGE_BY_PATH
from tests.consumer.test_real_service import LATER, LISTINGS, RealService, one, world
from tests.indexer.conftest import bench
from tests.records import deletion

__all__ = ["bench", "world"]

_TEXT = PAGE_BY_PATH["/docs/databases"].text
_START_SECONDS = 60


def _code(name: str) -> str:
    [code] = re.findall(rf"(?ms)^```\w+ {re.escape(name)}\n(.*?)^```$", _TEXT)
    return str(code)


@dataclass
class Database:
    """A server, by the name that the guide has for it, and what its driver connects with."""

    name: str
    url: str
    connect: Callable[[str], Any]

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements; return the rows of the last one."""
        connection = self.connect(self.url)
        try:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows
        finally:
            connection.close()

    @property
    def contents(self) -> dict[str, str]:
        return dict(self.run("SELECT id, content FROM listings"))


@asynccontextmanager
async def _postgresql(folder: Path) -> AsyncIterator[Database]:
    async with postgres(folder / "data") as program:
        yield Database("PostgreSQL", program.url, psycopg.connect)


@asynccontextmanager
async def _mariadb(folder: Path) -> AsyncIterator[Database]:
    install, server = (_program(name) for name in ("mariadb-install-db", "mariadbd"))
    data, [port] = f"--datadir={folder / 'data'}", free_ports(1)
    user = ["--user=root"] if os.geteuid() == 0 else []
    await asyncio.to_thread(subprocess.run, [install, "--no-defaults", data, *user], check=True, capture_output=True)
    process = await asyncio.create_subprocess_exec(
        *(server, "--no-defaults", data, *user, "--bind-address=127.0.0.1", f"--port={port}", "--skip-grant-tables"),
        *("--skip-networking=0", f"--socket={folder / 'socket'}"),
        stderr=subprocess.DEVNULL,
    )
    database = Database("MySQL", f"mysql://root@127.0.0.1:{port}/test", _mysql_connection)
    async with ending(process):
        async with asyncio.timeout(_START_SECONDS):
            while not await asyncio.to_thread(_accepts, database):
                assert process.returncode is None, f"mariadbd ended with {process.returncode}"
                await asyncio.sleep(0.05)
        yield database


def _program(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")
    assert found, f"{name} is not installed: run `make mariadb` as root"
    return found


def _mysql_connection(url: str) -> Any:
    found = urlsplit(url)
    return pymysql.connect(host="127.0.0.1", port=found.port or 0, user="root", database=found.path.strip("/"))


def _accepts(database: Database) -> bool:
    try:
        database.run("SELECT 1")
    except pymysql.err.OperationalError:
        return False
    return True


_SERVERS = {"PostgreSQL": _postgresql, "MySQL": _mariadb}


@pytest.fixture(params=_SERVERS)
async def database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    # Below /tmp, where the user of PostgreSQL may enter.
    with TemporaryDirectory(prefix="database-") as name:
        Path(name).chmod(0o711)  # noqa: ASYNC240
        async with _SERVERS[request.param](Path(name)) as found:
            yield found


@dataclass
class Copying:
    """The programs of the guide in a folder."""

    folder: Path
    database: Database
    service: RealService

    async def run(self) -> tuple[int, str]:
        """Run the program once; return its exit code and what it wrote."""
        environment = os.environ | {
            "API": f"{self.service.url}/v1",
            "KEY": self.service.key,
            "DATABASE_URL": self.database.url,
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "copy_feed.py"),
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        printed, _ = await process.communicate()
        return process.returncode or 0, printed.decode()


@pytest.fixture
def copying(tmp_path: Path, database: Database, world: RealService) -> Copying:
    for name, code in ("store.py", f"store.py for {database.name}"), ("copy_feed.py", "copy_feed.py"):
        (tmp_path / name).write_text(_code(code))
    return Copying(tmp_path, database, world)


_IDENTICAL = "listings identical\nsold_listings identical\nagents identical\n"


async def test_the_program_of_the_guide_keeps_a_copy(copying: Copying) -> None:
    database, service = copying.database, copying.service
    assert await copying.run() == (0, _IDENTICAL)
    assert database.contents == (await service.held())["listings"]
    assert len(database.contents) == LISTINGS

    await service.bench.update({LISTING: [one(LISTING, "l1", LATER, ListPrice=7), deletion(LISTING, "l2", LATER)]})
    held, before = (await service.held())["listings"], database.contents
    assert {*before} - {*held} == {"l2"}
    # The position cannot be stored, so the records are not, either.
    [(token,)] = database.run("SELECT token FROM feed_position WHERE resource = 'listings'")
    database.run(f"ALTER TABLE feed_position ADD CONSTRAINT fault CHECK (resource <> 'listings' OR token = '{token}')")
    code, printed = 0, ""
    while code == 0:  # a process may take a second to publish the change
        code, printed = await copying.run()
    assert (code, "fault" in printed) == (1, True)
    assert database.contents == before
    database.run("ALTER TABLE feed_position DROP CONSTRAINT fault")
    assert await copying.run() == (0, _IDENTICAL)
    assert database.contents == held

    statements = [line for line in _code(f"columns for {database.name}").splitlines() if line]
    database.run(*statements)
    assert database.run("SELECT id FROM listings WHERE list_price = 7") == [("l1",)]

    # Tokens of before a rollback have expired.
    await rollback(service.bench.engine(), LISTING)
    assert await copying.run() == (0, _IDENTICAL)
    assert database.contents == (await service.held())["listings"]
    assert database.run("SELECT count(*) FROM listings WHERE city IS NOT NULL") == [(len(database.contents),)]


async def test_a_copy_that_lacks_a_record_is_not_called_identical(copying: Copying) -> None:
    await copying.run()
    copying.database.run("DELETE FROM listings WHERE id = 'l3'")
    code, printed = await copying.run()
    assert (code, printed.splitlines()[0]) == (0, "listings differs")
    copying.database.run("DELETE FROM feed_position WHERE resource = 'listings'")
    assert await copying.run() == (0, _IDENTICAL)
