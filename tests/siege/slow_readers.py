"""Readers that stall or trickle: they hold what the service has to send."""

import asyncio
import itertools
from collections.abc import Iterator

from bench.questions import COMPANY
from tests.siege.target import SiegeTarget, repeatedly, request_bytes

_LISTINGS = f"/v1/listings?platform_company_id={COMPANY}&updated_since=0&market_status=all"
PAGE = f"{_LISTINGS}&page_size=1000"
# Requests for the same page share its bytes, so an attacker requests different ones.
_LARGEST_PAGE, _DIFFERENT_PAGES = 1000, 400
_TRICKLE_BYTES, _TRICKLE_SECONDS = 64, 0.5
_CUT = "closed by the service"


async def stall(target: SiegeTarget) -> None:
    """Request large pages and read nothing."""
    await _hold(target, "stalled readers", large_pages())


async def hoard_snapshots(target: SiegeTarget) -> None:
    """Request snapshots with one key and read nothing."""
    await _hold(target, "snapshot hoarders", itertools.repeat("/v1/snapshot/listings"), is_one_key=True)


async def hoard_files(target: SiegeTarget) -> None:
    """Request published files with one key and read nothing."""
    await _hold(target, "file hoarders", itertools.cycle(target.files or (PAGE,)), is_one_key=True)


def large_pages() -> Iterator[str]:
    """Yield the paths of large pages; many follow before one repeats."""
    for number in itertools.count():
        yield f"{_LISTINGS}&page_size={_LARGEST_PAGE - number % _DIFFERENT_PAGES}"


async def _hold(target: SiegeTarget, attack: str, paths: Iterator[str], *, is_one_key: bool = False) -> None:
    """Hold answers unread; then read on, to see whether the service has ended them."""

    async def attempt(number: int) -> str:
        async with target.connected() as (reader, writer):
            writer.write(request_bytes(next(paths), target.key(0 if is_one_key else number)))
            if (status := await status_of(reader)) != "200":
                return status
            outcomes["begun"] += 1
            length = await _content_length(reader)
            await asyncio.sleep(target.hold_seconds)
            target.hurry(writer)
            return "held to the end" if await _is_complete(reader, length) else _CUT

    outcomes = target.counter(attack)
    await repeatedly(target.connections, attempt, outcomes)


async def trickle(target: SiegeTarget) -> None:
    """Request large pages and read some bytes a second."""
    paths = large_pages()

    async def attempt(number: int) -> str:
        async with target.connected() as (reader, writer):
            writer.write(request_bytes(next(paths), target.key(number)))
            if (status := await status_of(reader)) != "200":
                return status
            outcomes["begun"] += 1
            for _ in itertools.count():
                if not await reader.read(_TRICKLE_BYTES):
                    break
                await asyncio.sleep(_TRICKLE_SECONDS)
            return _CUT

    outcomes = target.counter("trickling readers")
    await repeatedly(target.connections, attempt, outcomes)


async def trickle_heads(target: SiegeTarget) -> None:
    """Send the head of a request byte by byte."""

    async def attempt(number: int) -> str:
        async with target.connected() as (reader, writer):
            first = asyncio.create_task(_first_byte(reader))
            for byte in request_bytes("/v1/companies", target.key(number)):
                if writer.is_closing():
                    return _CUT
                writer.write(bytes([byte]))
                await asyncio.wait([first], timeout=_TRICKLE_SECONDS)
                if first.done():
                    break
            return "answered" if await first else _CUT

    await repeatedly(target.connections, attempt, target.counter("trickling heads"))


async def _first_byte(reader: asyncio.StreamReader) -> bytes:
    """Return the first byte of an answer, none if the connection ends."""
    try:
        return await reader.read(1)
    except ConnectionError:
        return b""


async def status_of(reader: asyncio.StreamReader) -> str:
    """Return the status of an answer, or that there is none."""
    line = await reader.readline()
    return line.split(b" ")[1].decode() if line.startswith(b"HTTP/") else _CUT


async def _content_length(reader: asyncio.StreamReader) -> int | None:
    """Read the headers of an answer; return the length of its body, None if it comes in chunks."""
    length: int | None = None
    while (line := await reader.readline()).strip():
        name, _, value = line.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    return length


async def _is_complete(reader: asyncio.StreamReader, length: int | None) -> bool:
    """Read to the end of the connection, or of the body; return whether the body was complete."""
    count, tail = 0, b""
    while length is None or count < length:
        if not (part := await reader.read(2**16)):
            break
        count, tail = count + len(part), (tail + part)[-5:]
    return tail == b"0\r\n\r\n" if length is None else count == length
