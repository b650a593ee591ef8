"""The service behind its own connections, which record each request; its logs, metrics and traces are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.services import SERVICES, Services
from service.telemetry.metrics import create_metrics_app
from service.telemetry.opentelemetry import OtelTracing
from tests.internals import Internals
from tests.network.server import Server, answering, serving
from tests.network.threads import in_thread
from tests.service.conftest import stand_in
from tests.service.raw_http import listening
from tests.service.stand_in import StandIn
from tests.service_settings import service_settings
from tests.waiting import until

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["stand_in"]

FEED = "/v1/listings?platform_company_id=acme&updated_since=1"
SHOW = "/v1/listings/L-1"


@dataclass
class Watched:
    """A running service, and what it shows operators."""

    port: int
    metrics_port: int
    services: Services
    http: ClientSession
    spans: InMemorySpanExporter
    lines: list[tuple[str, dict[str, Any]]] = field(default_factory=list)  # message and fields

    async def get(self, path: str, key: str | None = None, method: str = "GET", **headers: str) -> int:
        """Return the status of an answer, once all of it was read."""
        sent = {**({} if key is None else {"x-api-key": key}), **headers}
        async with self.http.request(method, f"http://127.0.0.1:{self.port}{path}", headers=sent) as answer:
            await answer.read()
            return answer.status

    async def left(self, path: str, key: str, stand_in: StandIn) -> None:
        """Ask, and leave while Elasticsearch holds the search; return when the line of it is there."""
        asking = asyncio.create_task(self.get(path, key))
        await until(lambda: any(asked == "/listings/_search" for asked, _ in stand_in.asked))
        asking.cancel()
        await until(lambda: self.lines)

    async def text(self) -> str:
        """Return the text of `/metrics`."""
        async with self.http.get(f"http://127.0.0.1:{self.metrics_port}/metrics") as answer:
            assert answer.status == 200
            return await answer.text()

    async def families(self) -> dict[str, Metric]:
        """Return the same by the name of the metric."""
        return {family.name: family for family in text_string_to_metric_families(await self.text())}

    async def samples(self, metric: str) -> dict[tuple[str, ...], float]:
        """Return the samples of one metric, by their names and the values of their labels by the names of those."""
        return {
            (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
            for sample in (await self.families())[metric].samples
        }

    def finished(self) -> dict[str, ReadableSpan]:
        """Return the spans that have ended, by name."""
        return {span.name: span for span in self.spans.get_finished_spans()}


@pytest.fixture(autouse=True)
def patience(internals: Internals) -> None:
    """Show fresh values, however long a busy machine needs to read them."""
    internals(cache_refresh_timeout_seconds=60.0)


@pytest.fixture
async def watch(stand_in: StandIn) -> AsyncIterator[Callable[..., Awaitable[Watched]]]:
    """Start services with settings, each over the stand-in unless `url` names something else."""
    async with AsyncExitStack() as stack:

        async def start(*, url: str = stand_in.url, **settings: Any) -> Watched:
            chosen = service_settings(**{"shared_seconds": 0.0, **settings})
            spans, lines = InMemorySpanExporter(), list[tuple[str, dict[str, Any]]]()
            provider = TracerProvider(shutdown_on_exit=False)
            provider.add_span_processor(SimpleSpanProcessor(spans))
            app = create_app(
                chosen,
                ConnectionSettings(url=(url,)),
                lambda message, fields: lines.append((message, fields)),
                OtelTracing(provider),
            )
            port = await stack.enter_async_context(listening(app, chosen))
            metrics = await stack.enter_async_context(listening(create_metrics_app(app[SERVICES]), chosen))
            http = await stack.enter_async_context(ClientSession())
            return Watched(port, metrics, app[SERVICES], http, spans, lines)

        yield start


@pytest.fixture
async def watched(watch: Callable[..., Awaitable[Watched]]) -> Watched:
    """A service with one rate tier, gold."""
    return await watch(tiers=("gold=3000",))


@pytest.fixture
def key(stand_in: StandIn) -> str:
    """A key of the tier gold for all companies, of which there is one, with one listing."""
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    stand_in.add("listings", "L-1", {"PlatformListingId": "L-1"})
    return stand_in.grant(tier="gold")


@pytest.fixture
def collector() -> Iterator[Server]:
    """An OpenTelemetry collector that keeps what it is sent."""
    with in_thread(serving(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))) as server:
        yield server
