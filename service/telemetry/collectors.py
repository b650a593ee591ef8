"""The service's plain numbers as metrics, read when Prometheus asks: a request pays for no more than an addition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
    SummaryMetricFamily,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cluster.control import Mark
    from cluster.pulse import Pulse
    from mappings.resource import Resource
    from service.admission import Lane
    from service.freshness import Kept
    from service.layers import Ledger
    from service.telemetry.attempts import Attempts
    from service.telemetry.loop_lag import LoopLag
    from service.telemetry.traffic import Traffic


class LayerCollector:
    """The seconds of all requests by path template and layer, as a summary without quantiles."""

    def __init__(self, ledger: Ledger) -> None:
        """Read the ledger when Prometheus asks."""
        self._ledger = ledger

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric."""
        family = SummaryMetricFamily(
            "brokerage_layer_seconds", "Seconds spent in each layer of answered requests.", labels=("path", "layer")
        )
        for path, layer, spent in self._ledger.rows():
            family.add_metric((path, layer), count_value=spent.count, sum_value=spent.seconds)
        yield family


class LaneCollector:
    """How many requests run and wait, how many may, and how many were refused, by kind of request."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        """Read the lanes when Prometheus asks."""
        self._lanes = tuple(lanes)

    def collect(self) -> Iterator[Metric]:
        """Yield the four metrics."""
        places = GaugeMetricFamily("brokerage_requests_places", "Places for requests.", labels=["kind"])
        running = GaugeMetricFamily("brokerage_requests_running", "Requests that hold a place.", labels=["kind"])
        waiting = GaugeMetricFamily("brokerage_requests_waiting", "Requests that wait for a place.", labels=["kind"])
        refused = CounterMetricFamily(
            "brokerage_requests_refused", "Requests that found neither a place nor room to wait.", labels=["kind"]
        )
        for lane in self._lanes:
            places.add_metric([lane.kind], lane.places)
            running.add_metric([lane.kind], lane.running)
            waiting.add_metric([lane.kind], lane.waiting)
            refused.add_metric([lane.kind], lane.refused)
        yield from (places, running, waiting, refused)


class TrafficCollector:
    """What was answered, by route."""

    def __init__(self, traffic: Traffic) -> None:
        """Read the sums when Prometheus asks."""
        self._traffic = traffic

    def collect(self) -> Iterator[Metric]:
        """Yield the four metrics."""
        requests = CounterMetricFamily(
            "brokerage_requests",
            "Requests by template of the path, status and rate tier; 499 where the client left first.",
            labels=["route", "status", "tier"],
        )
        for (route, status, tier), count in self._traffic.requests.items():
            requests.add_metric([route, str(status), tier], count)
        seconds = HistogramMetricFamily(
            "brokerage_request_seconds",
            "Seconds until the answer was ready to be sent, by template of the path and class of the status.",
            labels=["route", "status_class"],
        )
        for labels, spent in self._traffic.seconds.items():
            seconds.add_metric(labels, spent.buckets(), spent.sum)
        yield from (requests, seconds)
        yield _by_route("brokerage_answer_rows", "Records that were sent.", self._traffic.rows)
        yield _by_route("brokerage_answer_bytes", "Bytes of bodies as sent, packed or not.", self._traffic.body_bytes)


def _by_route(name: str, text: str, sums: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=["route"])
    for route, count in sums.items():
        family.add_metric([route], count)
    return family


class EngineCollector:
    """The requests to Elasticsearch, and its nodes as they look from here. No node is named: addresses change."""

    def __init__(self, attempts: Attempts, pulses: Iterable[Pulse]) -> None:
        """Read both when Prometheus asks."""
        self._attempts = attempts
        self._pulses = tuple(pulses)

    def collect(self) -> Iterator[Metric]:
        """Yield the three metrics."""
        seconds = HistogramMetricFamily(
            "brokerage_elasticsearch_request_seconds",
            "Seconds of requests to Elasticsearch, with waiting for a connection, by class of status; none: no answer.",
            labels=["status_class"],
        )
        for outcome, spent in self._attempts.seconds.items():
            seconds.add_metric([outcome], spent.buckets(), spent.sum)
        running = sum(len(pulse.under_way) for pulse in self._pulses)
        nodes = GaugeMetricFamily("brokerage_elasticsearch_nodes", "Nodes by what they are.", labels=["state"])
        for state, count in node_states(self._pulses).items():
            nodes.add_metric([state], count)
        yield from (seconds, nodes)
        yield GaugeMetricFamily("brokerage_elasticsearch_requests_running", "Requests under way.", value=running)


def node_states(pulses: Iterable[Pulse]) -> dict[str, int]:
    """Return how many nodes of Elasticsearch are well, have failed and are silent, as they look from here."""
    states = {"well": 0, "failed": 0, "silent": 0}
    for pulse in pulses:
        states["silent" if pulse.is_silent else "well" if pulse.is_well else "failed"] += 1
    return states


class ProgressCollector:
    """How late the event loop is, and how far the indexer is: its marks as they were last read."""

    def __init__(self, loop_lag: LoopLag, marks: Mapping[Resource, Kept[Mark | None]]) -> None:
        """Read both when Prometheus asks."""
        self._loop_lag = loop_lag
        self._marks = marks

    def collect(self) -> Iterator[Metric]:
        """Yield the three metrics. A resource that was never loaded has no mark."""
        lag = HistogramMetricFamily(
            "brokerage_loop_lag_seconds", "Seconds by which the event loop was late, tried four times a second."
        )
        lag.add_metric([], self._loop_lag.seconds.buckets(), self._loop_lag.seconds.sum)
        clock = GaugeMetricFamily(
            "brokerage_index_mark_timestamp_seconds",
            "The moment up to which all that the indexer stamped is visible, in seconds since 1970.",
            labels=["resource"],
        )
        sequence = GaugeMetricFamily(
            "brokerage_index_mark_sequence", "Changes that the indexer has published.", labels=["resource"]
        )
        for resource, kept in self._marks.items():
            if (mark := kept.current) is not None:
                clock.add_metric([resource.alias], mark.clock / 1000)
                sequence.add_metric([resource.alias], mark.sequence)
        yield from (lag, clock, sequence)
