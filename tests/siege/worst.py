"""What the worst requests of the RESO Web API cost: `python -m tests.siege.worst [--listings N] [--only SET...]`.

Prints, of each figure, the requests with the most: processor time of the service, the longest pause of its event loop,
and processor time of Elasticsearch. Each is sent twice to a service in a thread; the cheaper time counts.
"""

import argparse
import asyncio
import logging
import queue
import socket
import threading
import time
from asyncio.events import Handle
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from bench.accounting import exact_seconds
from embedded import NodeOptions
from service.app import create_app
from service.reso.entity_events import EVENT_ENTITY_SET
from service.reso.sets.declarations import ENTITY_SETS
from service.settings import ServiceSettings
from service.workers.worker import tune_garbage_collector
from tests.odata.worst_requests import WorstRequest, worst_requests
from tests.service.raw_http import listening, request
from tests.simulation.nodes import running
from tests.simulation.services import load_cluster

_ROUNDS, _SHOWN, _KEYS = 2, 15, 500


class Service(NamedTuple):
    """A service in another thread: its port and key, the clock of its thread, and the process of Elasticsearch."""

    port: int
    key: str
    clock: int
    engine: int


class Cost(NamedTuple):
    """Milliseconds of processor time, and what came back."""

    service: float
    pause: float
    elasticsearch: float
    status: int
    body: bytes


def main() -> None:
    """Measure, and print three tables."""
    given = _arguments()
    logging.disable()
    started = queue.Queue[Service]()
    threading.Thread(target=asyncio.run, args=(_serve(given.listings, started),), daemon=True).start()
    service = started.get()
    keys = {name: _keys(service, name) for name in ENTITY_SETS}
    of_parents = {"Media": keys["Property"], "OpenHouse": keys["Property"], "TeamMembers": keys["Member"]}
    known = {**keys, **of_parents, EVENT_ENTITY_SET: keys["Property"]}
    costs = [
        (min(_cost(service, asked) for _ in range(_ROUNDS)), asked)
        for asked in worst_requests(known)
        if not given.only or asked.entity_set in given.only
    ]
    print(f"{len(costs)} requests, {given.listings:,} listings")
    for figure in ("service", "pause", "elasticsearch"):
        print(f"\nmost of {figure}: milliseconds of service, pause, Elasticsearch; status, bytes")
        for cost, asked in sorted(costs, key=lambda row: getattr(row[0], figure), reverse=True)[:_SHOWN]:
            times = f"{cost.service:7.1f} {cost.pause:7.1f} {cost.elasticsearch:7.1f}"
            print(f"{times}  {cost.status} {len(cost.body):10,}  {asked.entity_set}: {asked.shape}")


async def _serve(listings: int, started: queue.Queue[Service]) -> None:
    settings = ServiceSettings(refusals_per_minute=0, key_concurrency=0, deadline_seconds=60)
    async with (
        running(NodeOptions(ephemeral=True)) as nodes,
        load_cluster(nodes.urls, listings) as loaded,
        listening(create_app(settings, loaded.connection), settings) as port,
    ):
        tune_garbage_collector()
        clock = time.pthread_getcpuclockid(threading.get_ident())
        started.put(Service(port, loaded.key, clock, nodes.pid(0)))
        await asyncio.Event().wait()


_pauses = [0.0]
_run = Handle._run


def _timed(handle: Handle) -> None:
    began = time.thread_time()
    _run(handle)
    _pauses[0] = max(_pauses[0], time.thread_time() - began)


Handle._run = _timed  # type: ignore[assignment, method-assign]


def _cost(service: Service, asked: WorstRequest) -> Cost:
    path, headers = f"/v1/reso/{asked.path}", {"x-api-key": service.key, "Prefer": f"maxpagesize={asked.rows}"}
    _pauses[0], before, engine = 0.0, time.clock_gettime(service.clock), exact_seconds(service.engine)
    with socket.create_connection(("127.0.0.1", service.port)) as connection:
        connection.sendall(request(path, headers=headers))
        received = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    time.sleep(0.005)  # the service closes its side after the response
    of_service, of_engine = time.clock_gettime(service.clock) - before, exact_seconds(service.engine) - engine
    head, _, body = received.partition(b"\r\n\r\n")
    return Cost(of_service * 1e3, _pauses[0] * 1e3, of_engine * 1e3, int(head.split()[1]), body)


def _keys(service: Service, name: str) -> Sequence[str]:
    key = ENTITY_SETS[name].key
    answer = _cost(service, WorstRequest(name, "keys", f"{name}?$select={key}", _KEYS))
    return [row[key] for row in orjson.loads(answer.body)["value"]]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listings", type=int, default=30_000)
    parser.add_argument("--only", nargs="*", choices=(EVENT_ENTITY_SET, *ENTITY_SETS), metavar="SET")
    return parser.parse_args()


if __name__ == "__main__":
    main()
