"""The same of `brokerage serve`, as a process: its log is lines of JSON, and its spans are sent before it ends."""

import signal
import subprocess
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import orjson
import pytest

from tests.brokerage.conftest import COMMAND, _environment
from tests.brokerage.test_serve import _wait_for
from tests.neighbours import steady_port
from tests.network.server import Server

_PATIENCE_SECONDS = 120


def test_a_served_process_logs_lines_of_json_and_sends_its_spans(collector: Server, tmp_path: Path) -> None:
    port = steady_port()
    settings = {
        "ELASTICSEARCH_URL": "http://127.0.0.1:9",
        "BROKERAGE_PORT": str(port),
        "BROKERAGE_DRAIN_SECONDS": "0.1",
    }
    environment = _environment({**settings, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url})
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([COMMAND, "serve"], stdout=subprocess.DEVNULL, stderr=log, env=environment)  # noqa: S603 - our own
        try:
            _wait_for(port)
            with pytest.raises(HTTPError, match="401"):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/teams", timeout=_PATIENCE_SECONDS)
            process.send_signal(signal.SIGTERM)
            assert process.wait(_PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
    lines = [orjson.loads(line) for line in (tmp_path / "log").read_bytes().splitlines()]
    assert [line["message"] for line in lines if line.get("route") == "/v1/teams"] == ["GET /v1/teams 401"]
    assert {line["logger"] for line in lines} >= {"service", "service.access"}
    assert any(b"GET /v1/teams" in sent for sent in collector.requests)
