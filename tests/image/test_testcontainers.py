"""The branch of the tests' engine that starts a container, through podman's socket."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.image_build import ROOT
from tests.image.podman import Podman
from tests.waiting import wait_until

# A few tests that need a real node.
_TESTS = "tests/feed/test_tokens.py"


@pytest.fixture
def socket(podman: Podman) -> Iterator[Path]:
    """The socket on which podman speaks Docker's API."""
    path = podman.folder / "docker.sock"
    command = [*podman.command, "system", "service", "--time=0", f"unix://{path}"]
    server = subprocess.Popen(command, env=podman.environment, stderr=subprocess.DEVNULL)  # noqa: S603 - a fixed command
    try:
        wait_until(path.exists)
        yield path
    finally:
        server.terminate()
        server.wait()


def test_tests_run_on_a_container_where_an_engine_is(podman: Podman, node_image: str, socket: Path) -> None:
    variables = {
        "DOCKER_HOST": f"unix://{socket}",
        "TESTCONTAINERS_RYUK_DISABLED": "true",
        # The socket is here, also where this machine is itself a container.
        "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
    }
    environment = {name: value for name, value in os.environ.items() if name != "ELASTICSEARCH_URL"} | variables
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", _TESTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stdout + done.stderr
    started = podman.run("events", "--stream=false", "--since=1h", "--filter=event=start")
    assert [line for line in started.splitlines() if node_image in line and "org.testcontainers=true" in line]
