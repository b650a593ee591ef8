"""The state of one worker process for the console, and the merged state of all workers of a host."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from service.console.collectors import node_states
from service.console.metric_history import HistoryStep, MetricHistory
from service.services import Services
from service.telemetry.feed_consumers import FeedConsumer, KeyUse, merge_consumers, merge_key_uses

Item = TypeVar("Item")


class LaneSnapshot(msgspec.Struct):
    """The admission lane of one kind of request; `places` is its concurrency limit."""

    kind: str
    places: int
    running: int
    waiting: int


class WorkerSnapshot(msgspec.Struct):
    """The body of `/console/worker.json`; contains public ids of keys, never keys."""

    steps: list[HistoryStep]
    lanes: list[LaneSnapshot]
    nodes: dict[str, int]  # number of Elasticsearch nodes by state
    running: int  # requests to Elasticsearch in flight
    uses: list[KeyUse]
    feeds: list[FeedConsumer]


def take_snapshot(services: Services, history: MetricHistory) -> WorkerSnapshot:
    """Return the current state of this process."""
    lanes = services.admission.lanes()
    return WorkerSnapshot(
        steps=history.steps(),
        lanes=[LaneSnapshot(lane.kind, lane.slots, lane.running, lane.waiting) for lane in lanes],
        nodes=node_states(services.pulses),
        running=sum(len(node.in_flight) for node in services.pulses),
        uses=[*services.consumers.uses.values()],
        feeds=[*services.consumers.feeds.values()],
    )


def merge_snapshots(workers: Sequence[WorkerSnapshot]) -> WorkerSnapshot:
    """Merge the snapshots; the node states are those of the worker that sees the fewest healthy nodes."""
    lanes = _grouped((lane for worker in workers for lane in worker.lanes), lambda lane: lane.kind)
    uses = _grouped((use for worker in workers for use in worker.uses), lambda use: use.key_id)
    feeds = _grouped(
        (feed for worker in workers for feed in worker.feeds),
        lambda feed: (feed.key_id, feed.resource, feed.company),
    )
    return WorkerSnapshot(
        steps=[step for worker in workers for step in worker.steps],
        lanes=[_sum(group) for group in lanes],
        nodes=min((worker.nodes for worker in workers), key=lambda states: states["well"]),
        running=sum(worker.running for worker in workers),
        uses=[merge_key_uses(group) for group in uses],
        feeds=[merge_consumers(group) for group in feeds],
    )


def _grouped(items: Iterable[Item], key: Callable[[Item], object]) -> list[list[Item]]:
    groups: dict[object, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return [*groups.values()]


def _sum(lanes: Sequence[LaneSnapshot]) -> LaneSnapshot:
    return LaneSnapshot(
        kind=lanes[0].kind,
        places=sum(lane.places for lane in lanes),
        running=sum(lane.running for lane in lanes),
        waiting=sum(lane.waiting for lane in lanes),
    )
