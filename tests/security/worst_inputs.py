"""Inputs that cost most to parse, as raw requests.

`python -m tests.security.worst_inputs` prints the processor time of each.
"""

import asyncio
import logging
import queue
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from tests.security.worst_headers import WORST_HEADERS
from tests.security.worst_queries import RESO_URL_SIZE, WORST_OPTIONS, feed_queries, worst_paths, worst_queries
from tests.service.raw_http import request, serve_raw
from tests.service.stand_in import StandIn

# Of any refusal; the path is repeated once, and the known parameters are listed once.
MAX_ANSWER_BYTES = 8_192
# Served, in more than a kilobyte.
PATH = "/v1/listings?platform_company_id=acme"
_SHOWN, _ROUNDS = 20, 5


def worst_requests(key: str) -> Iterator[tuple[str, str, bytes]]:
    """Yield the parser, the family and the request of each case; `key` is valid."""
    credentials = {"x-api-key": key}
    for family, query in worst_queries().items():
        yield "parameters", family, request(f"{PATH}&{query}", headers=credentials)
        yield "parameters of a stranger", family, request(f"{PATH}&{query}")
    for family, query in feed_queries().items():
        yield "feed", family, request(f"/v1/{query}", headers=credentials)
    for option, build in WORST_OPTIONS.items():
        for family, value in build().items():
            entity_set = "EntityEvent" if "Event" in value or "ResourceRecord" in value else "Property"
            path = f"/v1/reso/{entity_set}?{option}={value}"
            yield option, family, request(path[:RESO_URL_SIZE], headers=credentials)
    for family, query in worst_queries(RESO_URL_SIZE).items():
        yield "OData options", family, request(f"/v1/reso/Property?{query}", headers=credentials)
    for family, path in worst_paths().items():
        yield "paths", family, request(path, headers=credentials)
    for name, values in WORST_HEADERS.items():
        for family, value in values().items():
            yield name, family, request(PATH, headers=credentials | {name: value})
    yield from _many_lines(credentials)


def _many_lines(credentials: Mapping[str, str]) -> Iterator[tuple[str, str, bytes]]:
    """Send each header in as many lines as one request may have."""
    for name, values in WORST_HEADERS.items():
        for family, value in values().items():
            plain = request(PATH, headers=credentials)
            lines = f"{name}: {value}\r\n" * 58
            yield name, f"58 lines: {family}", plain.replace(b"Host: x\r\n", b"Host: x\r\n" + lines.encode("latin-1"))


@asynccontextmanager
async def serve_worst(stand_in: StandIn) -> AsyncIterator[tuple[int, str]]:
    """Serve three listings behind a trusted proxy; yield the port and a key."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    for number in range(3):
        stand_in.add("listings", f"L{number}", {"PlatformListingId": f"L{number}", "PublicRemarks": "x" * 1_000})
    key = stand_in.grant()
    settings: dict[str, Any] = {
        "trusted_proxies": ("127.0.0.0/8", "::1/128"),
        "failures_per_minute": 100_000,
        "refusals_per_minute": 0,
        "key_concurrency": 0,
    }
    async with serve_raw(stand_in.url, **settings) as port:
        yield port, key


def main() -> None:
    """Print the processor time that the service takes for each case, the worst first."""
    logging.disable()
    cases, nodes = queue.Queue[tuple[int, str]](), queue.Queue[StandIn]()
    threading.Thread(target=asyncio.run, args=(_run_node(nodes),), daemon=True).start()
    started = threading.Thread(target=asyncio.run, args=(_run_service(nodes.get(), cases),), daemon=True)
    started.start()
    port, key = cases.get()
    clock = time.pthread_getcpuclockid(started.ident or 0)
    plain = ("nothing", "a page of three", request(PATH, headers={"x-api-key": key}))
    rows = [
        (_least_milliseconds(port, sent, clock), name, family, len(sent))
        for name, family, sent in (plain, plain, *worst_requests(key))
    ]
    for milliseconds, name, family, size in sorted(rows[1:], reverse=True)[:_SHOWN]:
        print(f"{milliseconds:7.2f} ms {size:8,} B  {name:25} {family}")
    print(f"{rows[1][0]:7.2f} ms for a page of three records; {len(rows) - 2} cases")


async def _run_node(nodes: queue.Queue[StandIn]) -> None:
    stand_in = StandIn()
    async with stand_in.running():
        nodes.put(stand_in)
        await asyncio.Event().wait()


async def _run_service(stand_in: StandIn, cases: queue.Queue[tuple[int, str]]) -> None:
    async with serve_worst(stand_in) as served:
        cases.put(served)
        await asyncio.Event().wait()


def _least_milliseconds(port: int, sent: bytes, clock: int) -> float:
    """Return the least processor time of the service's thread in several rounds."""
    taken = []
    for _ in range(_ROUNDS):
        before = time.clock_gettime(clock)
        with socket.create_connection(("127.0.0.1", port)) as connection, suppress(OSError):
            connection.sendall(sent)
            while connection.recv(65_536):
                pass
        # The service closes its side after the response.
        time.sleep(0.002)
        taken.append(time.clock_gettime(clock) - before)
    return min(taken) * 1e3


if __name__ == "__main__":
    main()
