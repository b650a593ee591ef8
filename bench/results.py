"""What a run measured, as it stands in `results.json`. Times are in seconds where the name does not say `ms`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from bench.spread import Spread  # noqa: TC001 - its fields are read when results are

if TYPE_CHECKING:
    from pathlib import Path

    from bench.arms import Arm

# A distribution is kept as its value at each percent from 0 to 100.
PERCENTS = 101
# Objects within objects up to here stand on lines of their own.
_LINES_DEEP = 3


class Environment(msgspec.Struct):
    """Where and on what was measured."""

    date: str
    cores: int
    processor: str
    versions: dict[str, str]
    listings: int
    companies: dict[str, int]
    page: int
    large_page: int
    heap_mb: int | None
    segments: dict[str, int]


class Round(msgspec.Struct):
    """One round of one arm; `cpu_ms` is the processor time for a request, by process."""

    seconds: float
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: dict[str, float]


class Measured(msgspec.Struct):
    """One arm. `p99_ms` and `percents_ms` are those of all requests of all rounds; `bytes` is the mean of a body."""

    answers: str
    question: str
    depth: str
    clients: int
    encoding: str
    requests: int
    bytes: float
    latency_ms: Spread
    per_second: Spread
    p99_ms: float
    percents_ms: list[float]
    cpu_ms: dict[str, float]
    rounds: list[Round]


class Walk(msgspec.Struct):
    """One walk of every company, page after page, each behind the last record of the one before."""

    seconds: dict[str, float]
    pages: int
    bytes: int
    cpu_seconds: dict[str, float]

    @property
    def total(self) -> float:
        """Seconds for all companies."""
        return sum(self.seconds.values())


class Memory(msgspec.Struct):
    """Memory of a worker in bytes: at rest, and its peak in each round of parallel walks."""

    clients: int
    page_bytes: float
    idle: int
    peaks: list[int]
    how: str


class Results(msgspec.Struct):
    """Everything; what could not be measured is told in `absent`, by its name."""

    environment: Environment
    groups: dict[str, dict[str, Measured]] = msgspec.field(default_factory=dict)
    walks: dict[str, list[Walk]] = msgspec.field(default_factory=dict)
    memory: Memory | None = None
    changed: int = 0  # listings that the update stage changed
    peer_reads: str = ""  # the textbook index that the peer reads
    absent: dict[str, str] = msgspec.field(default_factory=dict)

    def find(self, group: str, arm: Arm) -> Measured | None:
        """Return what was measured of an arm."""
        return self.groups.get(group, {}).get(arm.name)

    def forget(self, stage: str) -> None:
        """Forget what an earlier run says of a stage that is measured anew."""
        self.groups.pop(stage, None)
        begins = stage.removesuffix("s")
        self.absent = {name: why for name, why in self.absent.items() if not name.startswith(begins)}
        if stage == "walks":
            self.walks.clear()


def begun(earlier: Path | None, environment: Environment) -> Results:
    """Return what an earlier run measured, of which some stages are measured anew, or nothing yet.

    Nothing of it is kept unless data and program versions are the same.
    """
    if earlier is None or not earlier.exists():
        return Results(environment)
    found, fixed = read(earlier), ("cores", "versions", "listings", "page", "large_page", "heap_mb")
    is_same = all(getattr(found.environment, name) == getattr(environment, name) for name in fixed)
    return found if is_same else Results(environment)


def write(results: Results, target: Path) -> None:
    """Write the file anew; a reader never sees half of it."""
    draft = target.with_name(f".{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    draft.write_bytes(_spelt(_shortened(msgspec.to_builtins(results)), "\n") + b"\n")
    draft.replace(target)


def _spelt(value: object, line_end: str) -> bytes:
    """Spell JSON with a line for each arm: short enough to read, and two runs can be compared line by line."""
    if not isinstance(value, dict) or len(line_end) > _LINES_DEEP:
        return msgspec.json.encode(value)
    inner = line_end + " "
    lines = [msgspec.json.encode(name) + b": " + _spelt(each, inner) for name, each in value.items()]
    between = "," + inner
    return b"{" + inner.encode() + between.encode().join(lines) + line_end.encode() + b"}" if lines else b"{}"


def read(source: Path) -> Results:
    """Return what a file holds."""
    return msgspec.json.decode(source.read_bytes(), type=Results)


def _shortened(value: object) -> object:
    """Cut numbers to six digits: what lies behind them is noise."""
    if isinstance(value, dict):
        return {name: _shortened(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_shortened(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
