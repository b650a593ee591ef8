"""The programs of the peers: nginx and PostgreSQL of the system, and the two feeds in front of their stores.

What is not installed is left out, with a reason.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from bench.peers.data import (
    Feed,
    fill_postgres,
    fill_textbooks,
    textbook_index,
    textbook_page,
    textbooks_are_complete,
)
from bench.programs import Program, ending, running
from bench.questions import BY_COMPANY, DATABASE, FASTAPI, POSTGRES, RELAY, TEXTBOOKS, Heard
from cluster.connection import ConnectionSettings, connect
from embedded.node_options import free_ports

_START_SECONDS = 60
_PATIENT_SECONDS = 24 * 3600.0
_LOOK_SECONDS = 0.05
# PostgreSQL refuses to run as root.
_POSTGRES_USER = "postgres"
_AS_USER = ("setpriv", f"--reuid={_POSTGRES_USER}", f"--regid={_POSTGRES_USER}", "--clear-groups")
_TUNED = {
    "shared_buffers": "1GB",
    "default_toast_compression": "lz4",
    "max_wal_size": "8GB",
    "synchronous_commit": "off",
    "unix_socket_directories": "",
}
_NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log stderr error;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  upstream engine {{ server {engine}; keepalive 64; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port}; keepalive_requests 1000000;
    location / {{
      proxy_pass http://engine; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_buffers 256 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0;
    }}
  }}
}}
"""


@dataclass
class Peers:
    """What answers beside the service: addresses and processes by name, searches by who answers, and who is missing."""

    servers: dict[str, str] = field(default_factory=dict)
    processes: dict[str, int] = field(default_factory=dict)
    heard: dict[str, dict[str, Heard]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


@asynccontextmanager
async def peers(
    connection: ConnectionSettings, feed: Feed, key: str, size: int, folder: Path | None
) -> AsyncIterator[Peers]:
    """Write what the peers lack, and run them behind a key. `folder` keeps the database for the next run."""
    [engine] = connection.url
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(connection, connections=2, timeout=_PATIENT_SECONDS))
        if not await textbooks_are_complete(client, connection.prefix, feed.listings):
            await fill_textbooks(client, connection.prefix, feed)
        found = Peers(
            servers=dict.fromkeys(TEXTBOOKS, engine),
            heard={order: {"page": textbook_page(connection.prefix, order, size)} for order in TEXTBOOKS},
        )
        made = stack.enter_context(_folder())
        programs: dict[str, Callable[[], AbstractAsyncContextManager[Program]]] = {
            RELAY: lambda: relay(engine, made),
            FASTAPI: lambda: fastapi_feed(engine, textbook_index(connection.prefix, BY_COMPANY), key),
        }
        try:
            database = await stack.enter_async_context(postgres(folder or made / "postgres"))
        except Missing as error:
            found.missing[POSTGRES] = str(error)
        else:
            found.processes[DATABASE] = database.pid
            await fill_postgres(database.url, feed)
            programs[POSTGRES] = lambda: postgres_feed(database.url, key)
        for name, start in programs.items():
            try:
                program = await stack.enter_async_context(start())
            except Missing as error:
                found.missing[name] = str(error)
                continue
            await program.ready()
            found.servers[name], found.processes[name] = program.url, program.pid
        yield found


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as name:
        Path(name).chmod(0o711)  # the user of PostgreSQL passes through it
        yield Path(name)


class Missing(Exception):
    """A program is not installed; the message names it and Debian's package."""


def _program(name: str, package: str) -> str:
    """Return the path of a program of the system; Debian keeps those of PostgreSQL outside of PATH."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *places])
    if (found := shutil.which(name, path=path)) is None:
        raise Missing(f"{name} is not installed: install the Debian package {package}")
    return found


@asynccontextmanager
async def relay(engine: str, folder: Path) -> AsyncIterator[Program]:
    """Run nginx in front of Elasticsearch: the limit of a program that only forwards."""
    path, [port] = _program("nginx", "nginx-light"), free_ports(1)
    written = folder / "nginx.conf"
    written.write_text(_NGINX.format(folder=folder, engine=engine.removeprefix("http://"), port=port))
    process = await asyncio.create_subprocess_exec(path, "-c", str(written), stdout=asyncio.subprocess.DEVNULL)
    async with ending(process):
        yield Program(f"http://127.0.0.1:{port}", process)


@asynccontextmanager
async def fastapi_feed(engine: str, index: str, key: str) -> AsyncIterator[Program]:
    """Run the FastAPI peer."""
    environment = {"ELASTICSEARCH_URL": engine, "PEER_INDEX": index, "PEER_KEY": key}
    serve = ("-m", "uvicorn", "--factory", "bench.peers.fastapi_feed:create", "--no-access-log")
    async with running(environment, sys.executable, *serve, "--log-level", "warning") as program:
        yield program


@asynccontextmanager
async def postgres_feed(database: str, key: str) -> AsyncIterator[Program]:
    """Run the PostgreSQL peer in front of its database."""
    environment = {"DATABASE_URL": database, "PEER_KEY": key}
    async with running(environment, sys.executable, "-m", "bench.peers.postgres_feed") as program:
        yield program


@asynccontextmanager
async def postgres(folder: Path) -> AsyncIterator[Program]:
    """Run PostgreSQL on a folder, which is made if it is new; `url` is that of its database."""
    server, initdb = _program("postgres", "postgresql"), _program("initdb", "postgresql")
    await asyncio.to_thread(_create_database, initdb, folder)
    [port] = free_ports(1)
    given = [part for name, value in _TUNED.items() for part in ("-c", f"{name}={value}")]
    process = await asyncio.create_subprocess_exec(
        *_unprivileged(), server, "-D", str(folder), "-p", str(port), *given, cwd="/", stderr=asyncio.subprocess.DEVNULL
    )
    async with ending(process):
        program = Program(f"postgresql://peer@127.0.0.1:{port}/postgres", process)
        async with asyncio.timeout(_START_SECONDS):
            while not await _accepts(program.url):
                if process.returncode is not None:
                    raise RuntimeError(f"PostgreSQL ended with {process.returncode}")
                await asyncio.sleep(_LOOK_SECONDS)
        yield program


async def _accepts(url: str) -> bool:
    try:
        await (await asyncpg.connect(url)).close()
    except (OSError, asyncpg.CannotConnectNowError):
        return False
    return True


def _unprivileged() -> tuple[str, ...]:
    return _AS_USER if os.geteuid() == 0 else ()


def _create_database(initdb: str, folder: Path) -> None:
    """Make the folder of a database, unless it is there."""
    if (folder / "PG_VERSION").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    if _unprivileged():
        shutil.chown(folder, _POSTGRES_USER)
    command = [*_unprivileged(), initdb, "-D", str(folder), "-U", "peer", "--auth=trust", "--encoding=UTF8"]
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)  # noqa: S603 - a fixed program
    if done.returncode:
        raise RuntimeError(f"initdb ended with {done.returncode}: {done.stderr[-500:]}")
