"""`brokerage serve` with several workers: what it does when they die, hang, or are to be replaced."""

import os
import re
import signal
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.brokerage.conftest import RunningCommand, running
from tests.brokerage.test_serve import _answer, _wait_for
from tests.processes import is_running, is_stopped, workers_of
from tests.waiting import wait_until


def _port(service: RunningCommand) -> int:
    """Return the port that it says it has chosen, once it is answered there."""
    service.read_until("Ctrl-C stops\n")
    found = re.search(r"http://127\.0\.0\.1:(\d+)/v1", service.output)
    assert found
    _wait_for(int(found[1]))
    return int(found[1])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_signal_ends_it_at_once(on_engine: dict[str, str], workers: int) -> None:
    environment = {**on_engine, "BROKERAGE_DRAIN_SECONDS": "1000"}
    with running("serve", "--port", "0", "--workers", str(workers), environment=environment) as service:
        port, started = _port(service), service.workers(workers if workers > 1 else 0)
        service.process.send_signal(signal.SIGTERM)
        # Two that come together are one.
        wait_until(lambda: "draining" in _answer(port, "/readyz")[1])
        assert service.stop(signal.SIGTERM) == 128 + signal.SIGTERM
        assert not any(is_running(pid) for pid in started)


def test_what_reaches_the_whole_group_ends_it_in_order_too(on_engine: dict[str, str]) -> None:
    environment = {**on_engine, "BROKERAGE_DRAIN_SECONDS": "1"}
    with running("serve", "--port", "0", "--workers", "2", environment=environment) as service:
        for pid in service.workers(2):
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGHUP)
        assert service.stop(signal.SIGINT) == 0
        assert "ended: " not in service.output
        assert "Traceback" not in service.output


def test_a_worker_that_hangs_does_not_keep_the_others_from_ending(on_engine: dict[str, str]) -> None:
    environment = {**on_engine, "BROKERAGE_DRAIN_SECONDS": "0.1", "BROKERAGE_DEADLINE_SECONDS": "0.6"}
    with running("serve", "--port", "0", "--workers", "2", environment=environment) as service:
        hung = max(service.workers(2))
        os.kill(hung, signal.SIGSTOP)
        wait_until(lambda: is_stopped(hung))
        assert service.stop(signal.SIGTERM) == 1
        assert f"(process {hung}) did not exit in time. Killing it." in service.output
        assert not is_running(hung)


def test_connections_that_a_worker_has_not_accepted_are_served_by_its_successor(on_engine: dict[str, str]) -> None:
    with running("serve", "--port", "0", "--workers", "2", environment=on_engine) as service, ExitStack() as opened:
        port, workers = _port(service), service.workers(2)
        for pid in workers:
            os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: all(is_stopped(pid) for pid in workers))
        waiting = [opened.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(16)]
        for connection in waiting:
            connection.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        assert {connection.recv(12) for connection in waiting} == {b"HTTP/1.1 200"}
        assert not workers & service.workers(2)


def test_workers_end_with_a_supervisor_that_was_killed(on_engine: dict[str, str]) -> None:
    environment = {**on_engine, "BROKERAGE_DRAIN_SECONDS": "0.1"}
    with running("serve", "--port", "0", "--workers", "2", environment=environment) as service:
        workers = service.workers(2)
        service.process.kill()
        wait_until(lambda: not any(is_running(pid) for pid in workers))


def test_settings_that_became_invalid_replace_no_worker(on_engine: dict[str, str], tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("x")
    environment = {**on_engine, "BROKERAGE_ELASTICSEARCH_API_KEY_FILE": str(secret)}
    with running("serve", "--port", "0", "--workers", "2", environment=environment) as service:
        port, before = _port(service), service.workers(2)
        secret.unlink()
        service.process.send_signal(signal.SIGHUP)
        printed = service.read_until("cannot be read")
        assert (
            "Rolling replacement stopped; the remaining old workers stay: BROKERAGE_ELASTICSEARCH_API_KEY_FILE"
            in printed
        )
        assert workers_of(service.process.pid) == before
        _wait_for(port)
