"""Bombs: a hostile server that answers everything with one, one that publishes one, and the clients that read them."""

import asyncio
import resource
import subprocess
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.accounting import peak_bytes
from bench.questions import COMPANY
from cluster.zstd import zstd
from tests.consumer.stand_in_service import KEY, StandInService
from tests.network.http import http
from tests.network.server import Connection, serving
from tests.simulation.services import COMMAND

_BLOCK_BYTES = 8_000_000
_LOOK_SECONDS = 0.05
# A client that grows without bound must not take the machine with it.
_ADDRESS_SPACE_BYTES = 4_000_000_000
_MEGABYTE = 1e6
_HEAD = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"


@dataclass(frozen=True)
class BombOutcome:
    """How a command ended that read a bomb: exit code (None: it was still reading), peak in MB, its last line."""

    command: str
    exit_code: int | None
    peak: float
    last_line: str
    is_traceback: bool


def bomb(unpacked: int) -> bytes:
    """Return a gzip stream of `unpacked` bytes of one JSON string that does not end."""
    packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
    head = packer.compress(b'{"value":[{"x":"') + packer.flush(zlib.Z_FULL_FLUSH)
    # After a full flush, equal blocks pack to equal bytes; their checksum at the end is never reached.
    block = packer.compress(b"a" * _BLOCK_BYTES) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * max(1, unpacked // _BLOCK_BYTES)


def file_bomb(unpacked: int) -> bytes:
    """Return a published file that unpacks to one line without an end."""
    packer = zstd.ZstdCompressor()
    blocks = (packer.compress(b"a" * _BLOCK_BYTES) for _ in range(max(1, unpacked // _BLOCK_BYTES)))
    return b"".join((*blocks, packer.flush()))


def _publisher(unpacked: int) -> StandInService:
    """Return a service whose published file is a bomb."""
    service = StandInService()
    service.put("listings", "L1")
    published = service.publish("listings", 1)
    published.replace(published.listed["files"][0], file_bomb(unpacked))
    return service


async def attack_clients(
    folder: Path, unpacked: int, seconds: float, environment: Mapping[str, str]
) -> list[BombOutcome]:
    """Let `brokerage pull` and `brokerage index replicate` read bombs, each for at most so many seconds."""
    body = bomb(unpacked)
    head = f"{_HEAD}Content-Length: {len(body)}\r\n\r\n"

    async def answer(connection: Connection) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await connection.request()
                await connection.send(head.encode() + body)

    changes = {"BROKERAGE_API_KEY": KEY, "BROKERAGE_RESO_DIR": str(folder / "reso"), **environment}
    publisher = _publisher(unpacked)
    async with serving(answer) as server, serving(http(publisher.reply)) as files:
        commands = {
            "brokerage pull": ("pull", str(folder / "copy"), "--url", server.url, "--no-verify"),
            "brokerage pull of a file": ("pull", str(folder / "files"), "--url", files.url, "--resources", "listings"),
            "brokerage index replicate": ("index", "replicate", server.url, "--company", COMPANY),
        }
        runs = (_run(name, given, changes, seconds) for name, given in commands.items())
        return list(await asyncio.gather(*runs))


async def _run(name: str, given: tuple[str, ...], environment: Mapping[str, str], seconds: float) -> BombOutcome:
    process = await asyncio.create_subprocess_exec(
        COMMAND,
        *given,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE_BYTES, _ADDRESS_SPACE_BYTES)),
    )
    reading = asyncio.create_task(process.communicate())
    peak, code = 0, None
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not reading.done():
                peak = max(peak, peak_bytes(process.pid))
                await asyncio.sleep(_LOOK_SECONDS)
            code = process.returncode
    if code is None:
        process.kill()
    text = (await reading)[0].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return BombOutcome(name, code, peak / _MEGABYTE, lines[-1] if lines else "", "Traceback" in text)
