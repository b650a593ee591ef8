"""`brokerage node` as people run it: a program of its own, ended by signals."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedded import EmbeddedCluster
from tests.embedded.conftest import HEAP_MB, eventually
from tests.neighbours import steady_port
from tests.processes import is_running

PROGRAM = [sys.executable, "-c", "from brokerage.node import node; node()"]
ENVIRONMENT = os.environ | {"BROKERAGE_NODE_HEAP_MB": str(HEAP_MB)}


@contextmanager
def running_command(data: Path) -> Iterator[tuple[subprocess.Popen[str], str, list[str]]]:
    """The program once it is ready, the node's address and what was printed so far."""
    port = steady_port()
    arguments = [*PROGRAM, "--port", str(port), "--data", str(data)]
    with subprocess.Popen(  # noqa: S603
        arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
    ) as program:
        try:
            assert program.stdout is not None
            lines: list[str] = []
            for line in program.stdout:
                lines.append(line.rstrip())
                if line.startswith("Press Ctrl-C"):
                    break
            yield program, f"http://127.0.0.1:{port}", lines
        finally:
            program.kill()


def node_pids(data: Path) -> list[int]:
    """The processes whose command line names the data folder."""
    names = [path for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [int(path.parent.name) for path in names if f'"{data}/node-0"' in _read(path)]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_command_in_order_with_exit_code_0(tmp_path: Path, number: signal.Signals) -> None:
    with running_command(tmp_path) as (program, url, lines):
        assert f"ready: {url}" in lines
        assert f"data: {tmp_path}" in lines
        assert f"log:  {tmp_path}/logs/node-0.log" in lines
        (pid,) = node_pids(tmp_path)
        program.send_signal(number)
        output, _none = program.communicate(timeout=120)
        assert program.returncode == 0
        assert output.split() == ["stopping", "stopped"]
        assert not is_running(pid)
        assert "] closed" in (tmp_path / "logs" / "node-0.log").read_text()


OWNER = """
import time
from embedded import EmbeddedCluster, NodeOptions
with EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
    print(cluster.processes[0].pid, flush=True)
    time.sleep(600)
"""


def test_the_node_and_its_ephemeral_data_go_when_their_program_is_killed(tmp_path: Path) -> None:
    environment = ENVIRONMENT | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=environment) as program:  # noqa: S603
        assert program.stdout is not None
        pid = int(program.stdout.readline())
        assert is_running(pid)
        assert len(list(tmp_path.iterdir())) == 1
        program.kill()
    assert eventually(lambda: not is_running(pid), seconds=60)
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_was_killed_ends_the_command_with_one_sentence(tmp_path: Path) -> None:
    with running_command(tmp_path) as (program, _url, _lines):
        (pid,) = node_pids(tmp_path)
        os.kill(pid, signal.SIGKILL)
        output, _none = program.communicate(timeout=120)
        assert program.returncode == 1
        log = tmp_path / "logs" / "node-0.log"
        assert output.splitlines()[-1] == f"Error: node-0 cannot run, it ended by SIGKILL (details: {log})"


def test_a_second_program_on_the_same_data_is_refused_with_the_first_ones_number(cluster: EmbeddedCluster) -> None:
    port = steady_port()
    arguments = [*PROGRAM, "--port", str(port), "--data", str(cluster.data)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=ENVIRONMENT, check=False)  # noqa: S603
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: the data folder {cluster.data} is in use by process {os.getpid()}: "
        "stop that one or choose another data folder with --data\n"
    )


def test_an_error_is_one_sentence_without_a_trace() -> None:
    environment = ENVIRONMENT | {"BROKERAGE_NODE_HEAP_MB": "much"}
    done = subprocess.run(PROGRAM, capture_output=True, text=True, env=environment, check=False)  # noqa: S603
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == (
        'Error: BROKERAGE_NODE_HEAP_MB is "much" but must be a whole number of megabytes, 256 or more\n'
    )
