"""`/metrics` of `brokerage serve`: on a port of its own, one for each worker."""

import json
import socket
import urllib.request
from collections.abc import Iterator

import pytest

from tests.brokerage.conftest import run, running
from tests.brokerage.test_serve import _status, _wait_for
from tests.neighbours import neighbours, steady_port


def _text(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return str(answer.read().decode())


@pytest.mark.parametrize("workers", [1, 2])
def test_each_worker_serves_its_metrics_on_its_own_port(on_engine: dict[str, str], workers: int) -> None:
    port, metrics = steady_port(), neighbours()
    environment = {**on_engine, "BROKERAGE_METRICS_PORT": str(metrics[0])}
    with running("serve", "--port", str(port), "--workers", str(workers), environment=environment):
        for reported in metrics[:workers]:
            _wait_for(reported, "/metrics")
        _wait_for(port)
        pages = [_text(reported) for reported in metrics[:workers]]
        assert all("brokerage_shared_searches_total 0.0" in page for page in pages)
        for reported in metrics[:workers]:
            console = json.loads(_text(reported, "/console/data.json"))
            assert (console["workers"], console["away"]) == (workers, [])
        assert (_status(port, "/metrics"), _status(metrics[0], "/v1/companies")) == (404, 404)
        assert _status(metrics[1], "/metrics") == (200 if workers == 2 else 0)


def test_without_a_port_there_are_no_metrics(on_engine: dict[str, str]) -> None:
    port = steady_port()
    with running("serve", "--port", str(port), environment=on_engine):
        _wait_for(port)
        assert _status(port, "/metrics") == 404


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that something else listens on."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_metrics_port_is_reported_as_such(on_engine: dict[str, str], taken: int, workers: str) -> None:
    port = steady_port()
    ended = run(
        "serve",
        "--port",
        str(port),
        "--workers",
        workers,
        environment={**on_engine, "BROKERAGE_METRICS_PORT": str(taken)},
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"Cannot listen on 127.0.0.1:{taken}: ")
    assert "BROKERAGE_METRICS_PORT" in ended.stderr
    assert ended.stderr.count("\n") == 1
