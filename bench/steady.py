"""Whether a service's memory stays flat: `python -m bench.steady --service URL --key KEY --pid PID [--requests N]`.

Draws random pages of one feed, eight at a time: a third each plain, gzip and zstd, a fifth underscored (`--encoding
identity` for plain ones alone). Prints the resident memory of the process after each twelfth of the requests.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from itertools import count

import aiohttp
import uvloop

from bench.accounting import resident_bytes
from bench.layers import FEED

_CLIENTS = 8
_MOST_PAGES = 60
_LOOKS = 12
_MEGABYTE = 1e6


async def _ask(session: aiohttp.ClientSession, given: argparse.Namespace, target: str, encoding: str) -> str | None:
    """Read a page; return the target of the next one."""
    headers = {"x-api-key": given.key, "Accept-Encoding": encoding}
    async with session.get(given.service + target, headers=headers) as response:
        response.raise_for_status()
        await response.read()
        following = response.links.get("next")
        return None if following is None else str(following["url"]).removeprefix(given.service)


async def _targets(session: aiohttp.ClientSession, given: argparse.Namespace) -> list[str]:
    found: list[str] = []
    target: str | None = FEED
    while target is not None and len(found) < _MOST_PAGES:
        found.append(target)
        target = await _ask(session, given, target, "identity")
    return found


async def _client(
    session: aiohttp.ClientSession, given: argparse.Namespace, targets: list[str], turns: count[int]
) -> None:
    for turn in turns:
        if turn > given.requests:
            return
        spelling = "&underscore_response=true" if turn % 5 == 0 else ""
        encodings = given.encoding.split(",")
        await _ask(session, given, random.choice(targets) + spelling, encodings[turn % len(encodings)])  # noqa: S311
        if turn % (given.requests // _LOOKS) == 0:
            print(f"{turn:8,} requests {resident_bytes(given.pid) / _MEGABYTE:8.1f} MB", flush=True)


async def _measure(given: argparse.Namespace) -> None:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        targets, turns = await _targets(session, given), count(1)
        await asyncio.gather(*(_client(session, given, targets, turns) for _ in range(_CLIENTS)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service", required=True, help="where the API is, http://host:port")
    parser.add_argument("--key", required=True)
    parser.add_argument("--pid", required=True, type=int, help="the process that serves")
    parser.add_argument("--encoding", default="identity,gzip,zstd")
    parser.add_argument("--requests", type=int, default=30_000)
    uvloop.run(_measure(parser.parse_args()))


if __name__ == "__main__":
    main()
