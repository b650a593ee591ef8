"""The measurements of a run, as stored in `results.json`. Times are in seconds unless the name says `ms`."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.questions import Arm

COPIES, COMMANDS = "copies", "commands"
# Objects nested up to this depth get one line per member.
_LINES_DEEP = 3


class Spread(msgspec.Struct, frozen=True):
    """A median between its quarter points."""

    median: float
    low: float
    high: float


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


class Round(msgspec.Struct):
    """One round of one arm; `cpu_ms` is the processor time for a request, by process."""

    seconds: float
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: dict[str, float]


class Measured(msgspec.Struct):
    """One arm. `p99_ms` is that of all requests of all rounds; `bytes` is the mean size of a body."""

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


class Copied(msgspec.Struct):
    """One copy of a company; `cpu_seconds` is the processor time by process."""

    seconds: float
    bytes: int
    cpu_seconds: dict[str, float]


class Copies(msgspec.Struct):
    """Copies of one company, by the way they were taken, and the worker that served them. Memory is in bytes."""

    company: str
    listings: int
    ways: dict[str, list[Copied]]
    start_seconds: float
    memory_at_rest: int
    memory_at_most: int


class Command(msgspec.Struct):
    """A command of the indexer on so many records; `memory` is the most it held, in bytes."""

    records: int
    seconds: float
    cpu_seconds: dict[str, float]
    memory: int


class Commands(msgspec.Struct):
    """Commands of the indexer in turn, each after the one before, and the bytes of the index and its source."""

    listings: int
    source_bytes: int
    index_bytes: int
    taken: dict[str, Command]


class Results(msgspec.Struct):
    """All measurements; `absent` has the reason for each one that failed, by name."""

    environment: Environment
    groups: dict[str, dict[str, Measured]] = msgspec.field(default_factory=dict)
    walks: list[Walk] = msgspec.field(default_factory=list)
    copies: Copies | None = None
    commands: Commands | None = None
    absent: dict[str, str] = msgspec.field(default_factory=dict)

    def find(self, group: str, arm: Arm) -> Measured | None:
        return self.groups.get(group, {}).get(arm.name)

    def forget(self, stage: str) -> None:
        """Drop the earlier results of a stage that is measured again."""
        self.groups.pop(stage, None)
        self.absent = {name: why for name, why in self.absent.items() if not name.startswith(stage)}
        if stage == "walks":
            self.walks.clear()
        elif stage in {COPIES, COMMANDS}:
            setattr(self, stage, None)


def begun(earlier: Path | None, environment: Environment) -> Results:
    """Return the results of an earlier run, to be replaced stage by stage, or empty ones.

    Earlier results are used only if data and program versions are the same.
    """
    if earlier is None or not earlier.exists():
        return Results(environment)
    found, fixed = read(earlier), ("cores", "versions", "listings", "page", "large_page", "heap_mb")
    is_same = all(getattr(found.environment, name) == getattr(environment, name) for name in fixed)
    return found if is_same else Results(environment)


def write(results: Results, target: Path) -> None:
    """Replace the file atomically."""
    temporary = target.with_name(f".{target.name}")
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_bytes(_encode_lines(_rounded(msgspec.to_builtins(results)), "\n") + b"\n")
    temporary.replace(target)


def _encode_lines(value: object, line_end: str) -> bytes:
    """Encode JSON with a line for each arm, so that runs can be compared line by line."""
    if not isinstance(value, dict) or len(line_end) > _LINES_DEEP:
        return msgspec.json.encode(value)
    inner = line_end + " "
    lines = [msgspec.json.encode(name) + b": " + _encode_lines(each, inner) for name, each in value.items()]
    between = "," + inner
    return b"{" + inner.encode() + between.encode().join(lines) + line_end.encode() + b"}" if lines else b"{}"


def read(source: Path) -> Results:
    """Return what a file holds."""
    return msgspec.json.decode(source.read_bytes(), type=Results)


def _rounded(value: object) -> object:
    """Round numbers to six digits: the rest is noise."""
    if isinstance(value, dict):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def spread(values: Sequence[float]) -> Spread:
    """Return the median and the quarter points; one value is all three."""
    if len(values) == 1:
        return Spread(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Spread(median, low, high)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value at a share from 0 to 1, interpolated linearly between two values."""
    ordered = sorted(values)
    below, rest = divmod(share * (len(ordered) - 1), 1)
    low, high = ordered[int(below)], ordered[min(int(below) + 1, len(ordered) - 1)]
    return low + (high - low) * rest


def ratio(upper: Sequence[float], lower: Sequence[float]) -> Spread:
    """Return the ratio of two medians, with the quarter points of the ratios round by round.

    Both must come from the same rounds, in the same order.
    """
    by_round = spread([one / other for one, other in zip(upper, lower, strict=True)])
    return Spread(statistics.median(upper) / statistics.median(lower), by_round.low, by_round.high)


class Ratio(NamedTuple):
    """The median of the ratios of turns, and how far the true one can be from it."""

    median: float
    uncertainty: float


def compared(what: str, unit: str, taken: Sequence[tuple[float, float]]) -> Ratio:
    """Print the medians of what two versions took in turn, and return the ratio.

    The uncertainty is half the 95 % interval of a median (McGill, Tukey, Larsen: Variations of Box Plots, 1978).
    """
    before, after = (statistics.median(column) for column in zip(*taken, strict=True))
    found = spread([new / old for old, new in taken])
    told = Ratio(found.median, 1.57 * (found.high - found.low) / math.sqrt(len(taken)))
    print(
        f"{what:26} before {before:8.3f} {unit:2}, after {after:8.3f} {unit:2}, "
        f"ratio {told.median:.3f} ± {told.uncertainty:.3f}",
        flush=True,
    )
    return told
