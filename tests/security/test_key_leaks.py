"""One key is driven through every way into a served process: it comes out nowhere.

Real processes, all loggers at their most talkative, crashes that hold the whole request in their text: their whole
output is looked through, and every byte that a client gets.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from service.services import SERVICES
from tests.brokerage.conftest import COMMAND, _environment, invoke
from tests.brokerage.test_serve import _wait_for
from tests.contract.world import World
from tests.neighbours import neighbours, steady_port
from tests.security.canary import CanaryKey, KeyInjection, exchange, get

_AT_ONCE = 6
_PATIENCE_SECONDS = 60
_CRASHING = Path(__file__).parent / "crashing"
# The crashes of `crashing`, and what the log says of each.
_CRASHES = {
    "handler": "RuntimeError: <_Request GET",
    "task": "Task exception was never retrieved",
    "callback": "Exception in callback",
    "thread": "Exception in thread",
    "finalizer": "Exception ignored",
    "warning": "ResourceWarning: <_Request GET",
    "log": "Stack (most recent call last)",
    "stop": "The worker ends because of an unexpected error",
}


@pytest.fixture(scope="module")
def environment(walled: World, engine_url: str) -> dict[str, str]:
    """Where the commands find the world."""
    app = walled.http.app
    assert app is not None
    return {"ELASTICSEARCH_URL": engine_url, "BROKERAGE_INDEX_PREFIX": app[SERVICES].connection.prefix}


@pytest.fixture(scope="module")
def canary(environment: dict[str, str]) -> CanaryKey:
    """A key for everything, as the command line makes it."""
    made = _commanded(("keys", "create", "canary", "--all-companies", "--rate", "unlimited", "--json"), environment)
    return CanaryKey(orjson.loads(made)["key"])


def _commanded(command: tuple[str, ...], environment: dict[str, str]) -> str:
    """Return all that a command writes."""
    ended = invoke(*command, environment=environment)
    assert "Traceback" not in ended.stderr
    return ended.stdout + ended.stderr


@contextmanager
def served(output: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Serve with faults, and everything that is written in a file."""
    path = os.pathsep.join((str(_CRASHING), os.environ.get("PYTHONPATH", "")))
    talkative = {"PYTHONPATH": path, "PYTHONASYNCIODEBUG": "1", "PYTHONWARNINGS": "always"}
    with output.open("wb") as file:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [COMMAND, "serve"], stdout=file, stderr=subprocess.STDOUT, env=_environment({**environment, **talkative})
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def test_nothing_that_a_served_process_writes_or_answers_holds_the_key(
    canary: CanaryKey, environment: dict[str, str], tmp_path: Path
) -> None:
    port, (metrics, _) = steady_port(), neighbours()
    settings = {"BROKERAGE_PORT": str(port), "BROKERAGE_METRICS_PORT": str(metrics), "BROKERAGE_WORKERS": "2"}
    settings["BROKERAGE_METRICS_ALLOWED_HOSTS"] = "x"
    settings["BROKERAGE_DRAIN_SECONDS"] = "0.1"
    ways = {port: [*canary.injections(), *_crashing(canary)]}
    # The other port reads no key, but is sent them all the same.
    ways[metrics] = [
        way for way in canary.injections() if way.name.startswith(("path", "no ", "key ", "header Expect"))
    ]
    with served(tmp_path / "output", {**environment, **settings}) as process, ThreadPoolExecutor(_AT_ONCE) as pool:
        _wait_for(port)
        _wait_for(metrics, "/metrics")
        driven = [(way, pool.submit(exchange, to, way)) for to, chosen in ways.items() for way in chosen]
        leaking = [way.name for way, answer in driven if canary.found_in(answer.result())]
        exposed = exchange(metrics, get("metrics", "/metrics"), _PATIENCE_SECONDS)
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE_SECONDS)
    written = (tmp_path / "output").read_text(errors="replace")
    print(f"\ncanary: {len(driven)} ways, {len(leaking)} answers with it, {len(written)} characters written")
    assert leaking == []
    assert canary.found_in(exposed) == []
    assert "brokerage_layer_seconds" in exposed
    assert [line for line in written.splitlines() if canary.found_in(line)] == []
    assert [kind for kind, sign in _CRASHES.items() if sign not in written] == []
    assert f"{canary.key[:13]}_***" in written
    # The access log was looked through too: a line for each request, with the public id where the key was accepted.
    assert written.count('"logger":"service.access"') > len(driven) / 2
    assert f'"key_id":"{canary.key[3:13]}"' in written


def _crashing(canary: CanaryKey) -> list[KeyInjection]:
    target = f"/v1/companies?api-key={canary.key}"
    return [get(f"crash {kind}", target, f"x-crash: {kind}", f"x-api-key: {canary.key}") for kind in _CRASHES]


def test_no_command_shows_a_key_again(canary: CanaryKey, environment: dict[str, str]) -> None:
    commands = [("keys", "list"), ("keys", "list", "--json"), ("keys", "revoke", "unknown"), ("index", "status")]
    commands += [("doctor",), ("doctor", "--json"), ("settings",)]
    secret = {"BROKERAGE_ELASTICSEARCH_API_KEY": canary.key}
    written = [_commanded(command, environment) for command in commands] + [_commanded(("settings",), secret)]
    assert [text for text in written if canary.found_in(text)] == []
    assert "canary" in written[0]
