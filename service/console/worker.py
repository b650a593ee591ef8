"""What one worker process knows, and what all workers of a host know together."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

import msgspec

from service.console.history import Step  # noqa: TC001 - siblings' answers are read by it
from service.telemetry.collectors import node_states
from service.telemetry.consumers import Consumer, KeyUse, one_consumer, one_use

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from service.console.history import History
    from service.services import Services

Each = TypeVar("Each")


class Places(msgspec.Struct):
    """The places for requests of one kind."""

    kind: str
    places: int
    running: int
    waiting: int


class Worker(msgspec.Struct):
    """What is told under `/console/worker.json`; no key is in it, only public ids."""

    steps: list[Step]
    lanes: list[Places]
    nodes: dict[str, int]  # of Elasticsearch, by what they are
    running: int  # requests to Elasticsearch
    uses: list[KeyUse]
    feeds: list[Consumer]


def known(services: Services, history: History) -> Worker:
    """Return what this process knows now."""
    lanes = services.admission.lanes()
    return Worker(
        steps=history.steps(),
        lanes=[Places(lane.kind, lane.places, lane.running, lane.waiting) for lane in lanes],
        nodes=node_states(services.pulses),
        running=sum(len(pulse.under_way) for pulse in services.pulses),
        uses=[*services.consumers.uses.values()],
        feeds=[*services.consumers.feeds.values()],
    )


def together(workers: Sequence[Worker]) -> Worker:
    """Return all as if they were one; a node is as badly off as it is for the worker for which it is worst."""
    feeds = _grouped((feed for each in workers for feed in each.feeds), lambda it: (it.key_id, it.resource, it.company))
    return Worker(
        steps=[step for each in workers for step in each.steps],
        lanes=[
            _sum(lanes) for lanes in _grouped((lane for each in workers for lane in each.lanes), lambda it: it.kind)
        ],
        nodes=min((each.nodes for each in workers), key=lambda states: states["well"]),
        running=sum(each.running for each in workers),
        uses=[one_use(uses) for uses in _grouped((use for each in workers for use in each.uses), lambda it: it.key_id)],
        feeds=[one_consumer(consumers) for consumers in feeds],
    )


def _grouped(each: Iterable[Each], name: Callable[[Each], object]) -> list[list[Each]]:
    groups: dict[object, list[Each]] = defaultdict(list)
    for one in each:
        groups[name(one)].append(one)
    return [*groups.values()]


def _sum(lanes: Sequence[Places]) -> Places:
    return Places(
        kind=lanes[0].kind,
        places=sum(lane.places for lane in lanes),
        running=sum(lane.running for lane in lanes),
        waiting=sum(lane.waiting for lane in lanes),
    )
