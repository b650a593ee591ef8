"""`brokerage serve` and `brokerage settings` as processes."""

import os
import signal
import socket
import urllib.error
import urllib.request

import pytest

from tests.brokerage.conftest import run, running
from tests.neighbours import steady_port
from tests.processes import has_listening_socket, is_running
from tests.waiting import wait_until


def _answer(port: int, path: str) -> tuple[int, str]:
    """Return status and body of one request, 0 while nothing listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except (urllib.error.URLError, ConnectionError):
        return 0, ""


def _status(port: int, path: str = "/livez") -> int:
    return _answer(port, path)[0]


def _wait_for(port: int, path: str = "/livez") -> None:
    wait_until(lambda: _status(port, path) == 200)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_service_answers_until_it_is_stopped(
    on_engine: dict[str, str], workers: int, number: signal.Signals
) -> None:
    port = steady_port()
    environment = {**on_engine, "BROKERAGE_DRAIN_SECONDS": "0.1"}
    with running("serve", "--port", str(port), "--workers", str(workers), environment=environment) as service:
        _wait_for(port)
        started = service.workers(workers if workers > 1 else 0)
        assert service.stop(number) == 0
        assert "Traceback" not in service.output
        assert ("each worker has rate limits of its own" in service.output) == (workers == 2)
        assert f"documentation for partners: http://127.0.0.1:{port}/docs\n" in service.output
    assert _status(port) == 0
    assert not any(is_running(pid) for pid in started)


def test_only_workers_listen_once_the_service_is_stopped(on_engine: dict[str, str]) -> None:
    port = steady_port()
    environment = {**on_engine, "BROKERAGE_DRAIN_SECONDS": "30"}
    with running("serve", "--port", str(port), "--workers", "2", environment=environment) as service:
        _wait_for(port)
        workers = service.workers(2)
        wait_until(lambda: all(map(has_listening_socket, workers)))
        service.process.send_signal(signal.SIGTERM)
        # Else the kernel accepts connections for the parent, which loses them when it exits.
        wait_until(lambda: not has_listening_socket(service.process.pid))
        # A read of the kernel's table can miss a row while others change it.
        wait_until(lambda: all(map(has_listening_socket, workers)))
        assert _status(port) == 200


def test_a_worker_that_dies_is_replaced(on_engine: dict[str, str]) -> None:
    port = steady_port()
    with running("serve", "--port", str(port), "--workers", "2", environment=on_engine) as service:
        killed, other = service.workers(2)
        os.kill(killed, signal.SIGKILL)
        service.read_until("Restarting in")
        assert service.workers(2) & {killed, other} == {other}
        _wait_for(port)


def test_readiness_says_why_it_is_not_there(on_engine: dict[str, str]) -> None:
    port = steady_port()
    with running("serve", "--port", str(port), environment=on_engine):
        _wait_for(port)
        assert _status(port, "/readyz") == 503


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_port_is_reported_in_one_sentence(on_engine: dict[str, str], workers: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = run("serve", "--port", str(taken.getsockname()[1]), "--workers", workers, environment=on_engine)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Cannot listen on 127.0.0.1:")
    assert ended.stderr.count("\n") == 1


def test_a_setting_that_cannot_be_used_is_named(on_engine: dict[str, str]) -> None:
    ended = run("serve", environment={**on_engine, "BROKERAGE_DEADLINE_SECONDS": "soon"})
    assert ended.returncode == 2
    assert ended.stderr.startswith("BROKERAGE_DEADLINE_SECONDS='soon' is not valid")


def test_settings_show_values_and_origins_and_mask_secrets() -> None:
    environment = {"BROKERAGE_PORT": "81", "BROKERAGE_ELASTICSEARCH_API_KEY": "very-secret"}
    shown = run("settings", environment=environment)
    assert shown.returncode == 0
    lines = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert "81" in lines["BROKERAGE_PORT"]
    assert "environment" in lines["BROKERAGE_PORT"]
    assert "default" in lines["BROKERAGE_WORKERS"]
    assert {"ELASTICSEARCH_URL", "BROKERAGE_BULK_DOCUMENTS", "BROKERAGE_NODE_HEAP_MB"} <= lines.keys()
    assert "very-secret" not in shown.stdout
    assert "********" in lines["BROKERAGE_ELASTICSEARCH_API_KEY"]
