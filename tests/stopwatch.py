"""A stranger's path with a stopwatch, in an empty home: `python -m tests.stopwatch [--keep DIR]`.

It prints the time of each command, and the time, the commands and the questions of each part: from a clone to the first
page, from a key to a verified copy, from an own CSV file to the first page, and a new filter with its test.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

ROOT = Path(__file__).parents[1]
_PORT, _OWN_PORT = 18_730, 18_731
# The embedded node has no page at its root.
_NODE_HEALTH = "http://127.0.0.1:18732/_cluster/health"
_MOST_SECONDS = 600  # until a program answers
_CSV = "MLS#,Status,List Price,City,Modified\nA-1,Active,500000,Larchmont,2026-11-20T10:00:00Z\n"
# The recipe of CONTRIBUTING: a filter on an indexed field is one line, and one test.
_FILTER = '    min_list_price = WholeNumber("The lowest price.", clause=at_least("list_price"))\n'
_TEST = """from service.resources.operations import ListingsParameters


def test_the_filter_is_a_parameter() -> None:
    assert "min_list_price" in ListingsParameters().fields
"""


class Stopwatch:
    """The commands that a stranger types, in an empty home, and what they take."""

    def __init__(self, home: Path) -> None:
        self.clone = home / "brokerage"
        self.commands: list[str] = []
        kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "http", "LANG"))}
        path = f"{self.clone / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
        self.environment = kept | {"HOME": str(home), "PATH": path, "BROKERAGE_PORT": str(_OWN_PORT)}

    def run(self, command: str, **variables: str) -> str:
        self.commands.append(command)
        folder = self.clone if self.clone.exists() else self.clone.parent
        given, began = self.environment | variables, time.monotonic()
        ended = subprocess.run(  # noqa: S602 - the commands of the README
            command, shell=True, cwd=folder, env=given, capture_output=True, text=True, check=False
        )
        if ended.returncode:
            sys.exit(f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
        _print_time(command, began)
        return ended.stdout

    @contextmanager
    def started(self, command: str, ready: str) -> Iterator[str]:
        """Run a command until it is left; yield what it printed up to the moment when an address answers."""
        self.commands.append(command)
        log, began = self.clone / f"{len(self.commands)}.log", time.monotonic()
        with log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S602
                f"exec {command}", shell=True, cwd=self.clone, env=self.environment, stdout=out, stderr=out
            )
            try:
                latest = time.monotonic() + _MOST_SECONDS
                while not _answers(ready):
                    if process.poll() is not None or time.monotonic() > latest:
                        sys.exit(f"{command} does not answer at {ready}:\n{log.read_text()}")
                    time.sleep(0.1)
                _print_time(command, began)
                yield log.read_text()
            finally:
                process.terminate()
                process.wait()

    @contextmanager
    def part(self, name: str, questions: int = 0) -> Iterator[None]:
        self.commands, began = [], time.monotonic()
        yield
        seconds = time.monotonic() - began
        print(f"{name:<32} {seconds:6.1f} s  {len(self.commands)} commands  {questions} questions", flush=True)


def _print_time(command: str, began: float) -> None:
    print(f"{'':<4}{time.monotonic() - began:6.1f} s  {command.partition(chr(10))[0][:90]}", flush=True)


def _answers(url: str, key: str = "") -> bool:
    with suppress(URLError, OSError), urlopen(Request(url, headers={"x-api-key": key}), timeout=2) as answer:  # noqa: S310
        return bool(answer.status == 200)
    return False


def follow_the_path(home: Path) -> None:
    watch, base = Stopwatch(home), f"http://127.0.0.1:{_PORT}"
    with watch.part("clone to first page"):
        watch.run(f"git clone --quiet {ROOT} {watch.clone}")
        watch.run("make install")
        demo = watch.started(f"brokerage demo --port {_PORT}", f"{base}/readyz")
        printed = demo.__enter__()
        (key, *_) = re.findall(r"bk_[a-z0-9]{10}_\w{36}", printed)
        page = f"{base}/v1/listings?platform_company_id=evergreen-realty"
        watch.run(f"curl --fail -sS -H 'x-api-key: {key}' '{page}'")
    with watch.part("key to verified copy"):
        watch.run(f"brokerage-feed pull copy --url {base} --company evergreen-realty", BROKERAGE_API_KEY=key)
    demo.__exit__(None, None, None)
    with watch.part("own CSV to first page"), watch.started("brokerage node --port 18732", _NODE_HEALTH):
        watch.environment["ELASTICSEARCH_URL"] = "http://127.0.0.1:18732"
        (watch.clone / "mine.csv").write_text(_CSV)
        watch.run("brokerage index load mine.csv --company acme --name Acme --yes")
        key = re.findall(r"bk_\S+", watch.run("brokerage keys create Me --company acme"))[0]
        with watch.started("brokerage serve", f"http://127.0.0.1:{_OWN_PORT}/readyz"):
            own = f"http://127.0.0.1:{_OWN_PORT}/v1/listings?platform_company_id=acme&updated_since=1"
            assert "A-1" in watch.run(f"curl --fail -sS -H 'x-api-key: {key}' '{own}'")
    with watch.part("new filter with test"):
        watch.run("make develop")
        source = watch.clone / "service/resources/operations.py"
        text = source.read_text()
        text = text.replace("    UnixSecond,\n", "    UnixSecond,\n    WholeNumber,\n").replace(
            "    any_of,", "    any_of,\n    at_least,"
        )
        source.write_text(text.replace("    only_agent_created =", f"{_FILTER}    only_agent_created =", 1))
        (watch.clone / "tests/openapi/test_min_list_price.py").write_text(_TEST)
        watch.run(".venv/bin/python -m tests.openapi.regenerate")
        watch.run(".venv/bin/pytest -q tests/openapi/test_min_list_price.py tests/openapi/test_document.py")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", type=Path, help="an existing empty folder for the home, which stays")
    given = parser.parse_args()
    if given.keep:
        follow_the_path(given.keep.resolve())
    else:
        with tempfile.TemporaryDirectory() as made:
            follow_the_path(Path(made))
