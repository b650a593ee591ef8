"""What a newcomer waits for: `make newcomer`, or `python -m bench.newcomer [--write]`.

Clones the checkout, and follows the README with an empty home folder: install, demo, first response, second start.
Prints seconds and megabytes of each part (those that all programs of the machine received meanwhile), the size of
wheels and of what is installed, and the processor time of `brokerage --help`.
Uses the standard library alone, since it runs before anything is installed.
"""

import argparse
import os
import re
import resource
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_BEGIN, _END = "<!-- newcomer:begin -->", "<!-- newcomer:end -->"
_FIRST, _SECOND = "**from `git clone` to the first response**", "second `make demo`, until it responds"
_ROOT = Path(__file__).resolve().parent.parent
_ROUNDS = 5
_PORT = 8093
_MB = 1_000_000
# What a newcomer does not have set; the rest may be needed to reach the package index.
_OWN = ("BROKERAGE_", "ELASTICSEARCH_URL", "XDG_", "VIRTUAL_ENV", "PYTHON")


@dataclass
class Visit:
    """A clone with an empty home folder, and what was measured in it."""

    clone: Path
    home: Path
    figures: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The caller's, without settings of this product and of Python."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OWN)}
        return inherited | {"HOME": str(self.home)}

    def run(self, *command: str) -> str:
        """Return what a command in the clone printed; exit with it if the command fails."""
        made = subprocess.run(  # noqa: S603 - fixed commands
            command, cwd=self.clone, env=self.environment, capture_output=True, text=True, check=False
        )
        if made.returncode:
            sys.exit(f"{shlex.join(command)} failed:\n{made.stdout}{made.stderr}")
        return made.stdout

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Note the seconds of a part, and the megabytes that the machine received meanwhile, if more than one."""
        started, received = time.monotonic(), _received_bytes()
        yield
        megabytes = (_received_bytes() - received) / _MB
        downloads = f", {megabytes:.0f} MB downloaded" if megabytes > 1 else ""
        self.figures[name] = f"{time.monotonic() - started:.0f} s{downloads}"


def main() -> None:
    """Print a table and a sentence; with `--write`, also renew those of the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="renew README.md and docs/performance.md")
    is_written = parser.parse_args().write
    with tempfile.TemporaryDirectory() as scratch:
        visit = Visit(Path(scratch) / "clone", Path(scratch) / "home")
        visit.home.mkdir()
        _follow_readme(visit)
    table, sentence = _table(visit.figures), _sentence(visit.figures)
    print(f"{table}\n\n{sentence}")
    if is_written:
        write_between_marks(_ROOT / "docs" / "performance.md", f"\n{table}\n\n")
        write_between_marks(_ROOT / "README.md", f"{sentence}\n")


def _follow_readme(visit: Visit) -> None:
    started = time.monotonic()
    with visit.timed("`git clone`"):
        subprocess.run(["git", "clone", "--quiet", _ROOT, visit.clone], check=True)  # noqa: S603, S607 - fixed
    with visit.timed("`make install`"):
        visit.run("make", "install")
    with visit.timed("first `make demo`, until the service responds"):
        _demo(visit, visit.figures, started)
    with visit.timed(_SECOND):
        _demo(visit)
    visit.figures |= _sizes(visit) | _start_times(visit)


def _received_bytes() -> int:
    """The bytes that all network interfaces but the loopback received."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()[2:]
    return sum(
        int(counts.split()[0]) for name, _, counts in (line.partition(":") for line in lines) if name.strip() != "lo"
    )


def _demo(visit: Visit, figures: dict[str, str] | None = None, started: float = 0.0) -> None:
    """Start the demo, send the first request that it prints, and stop it."""
    command = ["make", "demo", f"DEMO=--port {_PORT}"]
    demo = subprocess.Popen(  # noqa: S603 - a fixed command
        command, cwd=visit.clone, env=visit.environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        curl = next(line.strip() for line in demo.stdout or () if line.strip().startswith("curl "))
        visit.run(*shlex.split(curl), "--fail", "--silent", "--show-error")
        if figures is not None:
            figures[_FIRST] = f"**{time.monotonic() - started:.0f} s**"
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        demo.communicate()


def _sizes(visit: Visit) -> dict[str, str]:
    wheels = visit.clone / "build" / "wheels"
    python = str(visit.clone / ".venv" / "bin" / "python")
    visit.run(
        python,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(wheels),
        ".",
        "./consumer",
    )
    return {
        "disk space of `.venv`": _megabytes(visit.clone / ".venv"),
        "disk space of Elasticsearch": _megabytes(*(visit.home / ".cache" / "brokerage").glob("elasticsearch-*")),
    } | {f"wheel `{wheel.name.partition('-')[0]}`": _megabytes(wheel) for wheel in sorted(wheels.iterdir())}


def _megabytes(*paths: Path) -> str:
    files = [each for path in paths for each in (path, *path.rglob("*")) if each.is_file()]
    return f"{sum(each.lstat().st_size for each in files) / _MB:.1f} MB"


def _start_times(visit: Visit) -> dict[str, str]:
    command = str(visit.clone / ".venv" / "bin" / "brokerage")
    return {
        f"processor time of `brokerage {option}`": f"{_median_seconds(visit, command, option):.2f} s"
        for option in ("--version", "--help")
    }


def _median_seconds(visit: Visit, *command: str) -> float:
    return statistics.median(_processor_seconds(visit, *command) for _ in range(_ROUNDS))


def _processor_seconds(visit: Visit, *command: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    visit.run(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _table(figures: dict[str, str]) -> str:
    rows = "\n".join(f"| {name} | {figure} |" for name, figure in figures.items())
    return f"| two cores, an empty home folder | |\n|---|---:|\n{rows}"


def _sentence(figures: dict[str, str]) -> str:
    first, second = figures[_FIRST].strip("*"), figures[_SECOND]
    details = "[by part](docs/performance.md#what-a-newcomer-waits-for)"
    return f"On two cores, `git clone` to the first `curl` response took {first}, the next start {second} ({details})."


def write_between_marks(page: Path, text: str) -> None:
    """Replace what is between the two marks of a page."""
    old = page.read_text(encoding="utf-8")
    found = re.search(f"(?s)(?<={_BEGIN}\n).*?(?={_END})", old)
    if not found:
        sys.exit(f"{page} lacks {_BEGIN} and {_END}.")
    page.write_text(old[: found.start()] + text + old[found.end() :], encoding="utf-8")


if __name__ == "__main__":
    main()
