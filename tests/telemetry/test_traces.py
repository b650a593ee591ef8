"""Spans: named by the route, part of the client's trace, without anything that a client chose; off by default."""

import os
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from service.telemetry.tracing import load_tracing
from tests.network.server import Server
from tests.service.raw_http import exchange, request
from tests.service.stand_in import StandIn, refusal
from tests.telemetry.conftest import FEED, Watched

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FREE_TEXT = {"tracestate": "vendor=bk_secret", "baggage": "key=bk_secret", "User-Agent": "bk_secret"}


async def test_a_request_joins_the_trace_of_its_client_with_its_searches_below(watched: Watched, key: str) -> None:
    path = f"{FEED}&api-key={key}"
    assert await watched.get(path, None, traceparent=f"00-{TRACE}-{PARENT}-01", **FREE_TEXT) == 200
    spans = watched.finished()
    server, search = spans["GET /v1/listings"], spans["search listings"]
    assert (server.kind, search.kind) == (SpanKind.SERVER, SpanKind.CLIENT)
    assert server.context is not None
    assert server.parent is not None
    assert search.parent is not None
    assert (format(server.context.trace_id, "032x"), format(server.parent.span_id, "016x")) == (TRACE, PARENT)
    assert search.parent.span_id == server.context.span_id
    assert [fields["trace_id"] for _, fields in watched.lines] == [TRACE]
    assert "bk_secret" not in server.to_json()
    assert watched.lines[0][1]["request_id"] == (server.attributes or {})["brokerage.request_id"]


async def test_the_attributes_of_a_span_are_these_and_no_others(watched: Watched, key: str) -> None:
    await watched.get(f"{FEED}&last_platform_listing_id=L-0", key)
    attributes: Any = watched.finished()["GET /v1/listings"].attributes
    expected = {"http.request.method": "GET", "http.route": "/v1/listings", "http.response.status_code": 200}
    ours = {"rows": 1, "shared": False, "key_id": key[3:13], "request_id": watched.lines[0][1]["request_id"]}
    assert dict(attributes) == expected | {f"brokerage.{name}": value for name, value in ours.items()}
    searched: Any = watched.finished()["search listings"].attributes
    assert dict(searched) == {
        "db.system.name": "elasticsearch",
        "db.collection.name": "listings",
        "db.operation.name": "search",
        "http.request.method": "POST",
        "http.response.status_code": 200,
    }


async def test_what_failed_is_an_error_and_a_refusal_is_none(watched: Watched, stand_in: StandIn, key: str) -> None:
    stand_in.out(refusal(503, "x"), "listings")
    assert [await watched.get(path, key) for path in (FEED, "/nothing")] == [503, 404]
    spans = watched.finished()
    failed = {name: span.status.status_code is StatusCode.ERROR for name, span in spans.items() if "_doc" not in name}
    assert failed["GET /v1/listings"] is failed["search listings"] is True
    assert failed["GET"] is False
    assert [event for span in spans.values() for event in span.events] == []


async def test_without_a_trace_of_the_client_or_with_a_wrong_one_a_trace_begins(watched: Watched, key: str) -> None:
    for headers in ({}, {"traceparent": "00-nonsense"}):
        await exchange(watched.port, request(FEED, headers={"x-api-key": key, **headers}))
    spans = [span for span in watched.spans.get_finished_spans() if span.name == "GET /v1/listings"]
    assert [span.parent for span in spans] == [None, None]
    assert len({span.context.trace_id for span in spans if span.context is not None}) == 2


async def test_what_the_service_asks_for_by_itself_is_not_traced(watched: Watched) -> None:
    await watched.text()
    assert watched.finished() == {}


_SENDING = """
import os
from service.telemetry.tracing import load_tracing
tracing = load_tracing(os.environ)
with tracing._tracer.start_as_current_span("GET /v1/listings"):
    tracing.start_span("POST", "/listings/_search?timeout=1ms").end(200)
tracing.close()
"""


def test_spans_go_where_the_variables_say_before_the_process_ends(collector: Server) -> None:
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    subprocess.run([sys.executable, "-c", _SENDING], env=environment, check=True, timeout=60)  # noqa: S603 - our own
    (sent,) = collector.requests
    assert sent.startswith(b"POST /v1/traces HTTP/1.1\r\n")
    assert all(text in sent for text in (b"GET /v1/listings", b"search listings", b"service.name", b"brokerage"))


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"},
    ],
    ids=["nothing", "a name", "disabled", "no exporter"],
)
def test_nothing_is_traced_unless_the_variables_enable_it(environ: dict[str, str]) -> None:
    assert load_tracing(environ) is None


def test_what_is_not_installed_is_said_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setitem(sys.modules, "service.telemetry.opentelemetry", None)
    assert load_tracing({"OTEL_TRACES_EXPORTER": "otlp"}) is None
    assert "the extra `otel` is not installed" in caplog.text


def test_a_service_without_tracing_imports_nothing_of_it() -> None:
    loaded = "[name for name in sys.modules if name.startswith('opentelemetry.sdk')]"
    code = f"import sys, service.workers.worker; print({loaded})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own
    assert ended.stdout == "[]\n"
