"""The figures of a run, some with a target: ratios of medians, with the quartiles of the ratios of each round."""

from dataclasses import dataclass

from bench import arms
from bench.arms import Arm
from bench.results import Results
from bench.spread import Spread, ratio, spread

_PAGE, _SAME_BODY = Arm(arms.SERVICE), Arm(arms.RAW)
_BUSY, _BUSY_SAME_BODY = Arm(arms.SERVICE, depth="any", clients=8), Arm(arms.RAW, depth="any", clients=8)


@dataclass(frozen=True)
class Figure:
    """One figure. Its target is a maximum or a minimum; without one it is only reported."""

    name: str
    value: Spread | None
    most: float | None = None
    least: float | None = None

    @property
    def aim(self) -> str:
        """The target as text."""
        if self.most is not None:
            return f"≤ {self.most:.2f}"
        return "reported" if self.least is None else f"≥ {self.least:.2f}"

    @property
    def reached(self) -> bool | None:
        """Whether the median reaches the target; None without a value or a target."""
        if self.value is None or (self.most is None and self.least is None):
            return None
        # Rounded as it is printed, so that a figure never misses its target by an invisible difference.
        value = round(self.value.median, 2)
        return value <= self.most if self.most is not None else value >= (self.least or 0.0)


def figures(found: Results) -> list[Figure]:
    """Return all figures of a run; a figure that was not measured has no value."""
    two, one = (Arm(each, depth="any", clients=64) for each in (arms.TWO_WORKERS, arms.SERVICE))
    show, show_same_body = (Arm(each, "show", "", clients=8) for each in (arms.SERVICE, arms.RAW))
    gzip, zstd = (Arm(arms.SERVICE, depth="any", clients=8, encoding=each) for each in ("gzip", "zstd"))
    deep, underscored = Arm(arms.SERVICE, depth="97 %"), Arm(arms.SERVICE, "underscore_response")
    same = Arm(arms.SERVICE, depth="same", clients=8)
    return [
        Figure("pages per second, 8 clients: service / same body", _rates(found, _BUSY, _BUSY_SAME_BODY), least=0.85),
        Figure("page at 97 % of the largest company / first page, time", _times(found, deep, _PAGE), most=1.10),
        Figure("pages per second, 8 clients: gzip / identity", _rates(found, gzip, _BUSY), least=0.8),
        Figure("pages per second, 8 clients: zstd / identity", _rates(found, zstd, _BUSY)),
        Figure("page, 1 client: underscored / plain, time", _times(found, underscored, _PAGE), most=1.5),
        Figure("shows per second, 8 clients: service / same body", _rates(found, show, show_same_body), least=0.7),
        Figure("CPU seconds of the service per gigabyte", _seconds_a_gigabyte(found), most=0.8),
        Figure("page, 1 client: service / same body, time", _times(found, _PAGE, _SAME_BODY)),
        Figure("pages per second, 8 clients: all ask the same page / distinct pages", _rates(found, same, _BUSY)),
        Figure("pages per second, 64 clients: 2 workers / 1 worker", _rates(found, two, one, "clients")),
    ]


def _times(found: Results, arm: Arm, base: Arm) -> Spread | None:
    """Compare the request times of one client: the medians of all of them, the quartiles of the rounds' medians."""
    one, other = found.find("latency", arm), found.find("latency", base)
    if one is None or other is None:
        return None
    by_round = ratio([each.p50_ms for each in one.rounds], [each.p50_ms for each in other.rounds])
    return Spread(one.latency_ms.median / other.latency_ms.median, by_round.low, by_round.high)


def _rates(found: Results, arm: Arm, base: Arm, group: str = "throughput") -> Spread | None:
    """Compare requests per second."""
    one, other = found.find(group, arm), found.find(group, base)
    if one is None or other is None:
        return None
    return ratio([each.per_second for each in one.rounds], [each.per_second for each in other.rounds])


def _seconds_a_gigabyte(found: Results) -> Spread | None:
    """Return the CPU seconds of the service per 10^9 bytes of bodies."""
    busy = found.find("throughput", _BUSY)
    return None if busy is None else spread([busy.cpu_ms[busy.answers] / 1000 / busy.bytes * 1e9])
