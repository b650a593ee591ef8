"""The figures that were aimed at, each from what one run measured; what could not be measured has no value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import arms
from bench.arms import Arm
from bench.comparisons import (
    above_rest,
    after_updates,
    least,
    processor,
    rates,
    seconds_a_gigabyte,
    tails,
    times,
    walks,
)

if TYPE_CHECKING:
    from bench.results import Results
    from bench.spread import Spread

_PAGE, _FLOOR, _SAME_BODY = Arm(arms.SERVICE), Arm(arms.FLOOR), Arm(arms.RAW)
_BUSY, _BUSY_SAME_BODY = Arm(arms.SERVICE, depth="any", clients=8), Arm(arms.RAW, depth="any", clients=8)


@dataclass(frozen=True)
class Figure:
    """One figure. Its aim is a most or a least, or there is none and it is only reported."""

    name: str
    value: Spread | None
    most: float | None = None
    least: float | None = None

    @property
    def aim(self) -> str:
        """The aim as it is written."""
        if self.most is not None:
            return f"≤ {self.most:.2f}"
        return "reported" if self.least is None else f"≥ {self.least:.2f}"

    @property
    def reached(self) -> bool | None:
        """Whether the median reaches the aim; None where there is no value or no aim."""
        if self.value is None or (self.most is None and self.least is None):
            return None
        # As it is printed: no figure is missed by what nobody can see.
        value = round(self.value.median, 2)
        return value <= self.most if self.most is not None else value >= (self.least or 0.0)


def figures(found: Results) -> list[Figure]:
    """Return all figures of a run: those with an aim, in the order of the aims, and behind them the others."""
    return [*_pages(found), *_deep(found), *_peers(found), *_forms(found), *_costs(found), *_reported(found)]


def _pages(found: Results) -> list[Figure]:
    busy = rates(found, "throughput", _BUSY, _BUSY_SAME_BODY)
    return [
        Figure("page, 1 client: service / pass-through, time", times(found, _PAGE, _FLOOR), most=1.07),
        Figure("pages a second, 8 clients: service / same body", busy, least=0.85),
    ]


def _deep(found: Results) -> list[Figure]:
    busy = Arm(arms.SERVICE, depth="97 %", clients=8)
    best = least([rates(found, "throughput", busy, Arm(each, depth="97 %", clients=8)) for each in arms.TEXTBOOK])
    whole, largest = walks(found, lambda times: sum(times.values())), walks(found, lambda times: max(times.values()))
    flat = times(found, Arm(arms.SERVICE, depth="97 %"), _PAGE)
    return [
        Figure("page at 97 % of the largest company / first page, time", flat, most=1.10),
        Figure("pages a second at 97 %, 8 clients: service / best textbook query", best, least=2.0),
        Figure("walk of all listings, largest pages: service / best textbook walk, time", whole, most=0.85),
        Figure("walk of the largest company: service / best textbook walk, time", largest),
    ]


def _peers(found: Results) -> list[Figure]:
    peer = Arm(arms.PEER, depth="any", clients=8)
    canned = [Arm(each, depth="few", clients=8) for each in (arms.SERVICE_CANNED, arms.PEER_CANNED)]
    on_canned = rates(found, "peers", canned[0], canned[1])
    return [
        Figure("processor time for a page: service / FastAPI peer", processor(found, _BUSY, peer), most=0.1),
        Figure("pages a second, 8 clients: service / FastAPI peer", rates(found, "peers", _BUSY, peer), least=2.0),
        Figure("pages a second, 8 clients, canned engine: service / FastAPI peer", on_canned, least=5.0),
    ]


def _forms(found: Results) -> list[Figure]:
    encoded = {
        encoding: rates(found, "throughput", Arm(arms.SERVICE, depth="any", clients=8, encoding=encoding), _BUSY)
        for encoding in ("gzip", "zstd")
    }
    shows = [Arm(each, "show", "", clients=8) for each in (arms.SERVICE, arms.RAW)]
    underscored = times(found, Arm(arms.SERVICE, "underscore_response"), _PAGE)
    return [
        Figure("pages a second, 8 clients: gzip / identity", encoded["gzip"], least=0.8),
        Figure("pages a second, 8 clients: zstd / identity", encoded["zstd"]),
        Figure("page, 1 client: underscored / plain, time", underscored, most=1.5),
        Figure("shows a second, 8 clients: service / same body", rates(found, "throughput", *shows), least=0.7),
    ]


def _costs(found: Results) -> list[Figure]:
    busy = seconds_a_gigabyte(found.find("throughput", _BUSY))
    return [
        Figure("processor seconds of the service for a gigabyte", busy, most=0.8),
        Figure("memory of a worker above rest, 64 walks / pages in flight", above_rest(found), most=3.0),
    ]


def _reported(found: Results) -> list[Figure]:
    same = rates(found, "throughput", Arm(arms.SERVICE, depth="same", clients=8), _BUSY)
    many = [Arm(each, depth="any", clients=64) for each in (arms.TWO_WORKERS, arms.SERVICE)]
    slower = after_updates(found, lambda each: each.p50_ms, _PAGE, _SAME_BODY)
    fewer = after_updates(found, lambda each: each.per_second, _BUSY, _BUSY_SAME_BODY)
    return [
        Figure("page, 1 client: service / same body, time", times(found, _PAGE, _SAME_BODY)),
        Figure("page, 1 client: pass-through / same body, time", times(found, _FLOOR, _SAME_BODY)),
        Figure("page, 1 client: service / pass-through, 99th percentile", tails(found, _PAGE, _FLOOR)),
        Figure("page, 1 client: service / same body, 99th percentile", tails(found, _PAGE, _SAME_BODY)),
        Figure("pages a second, 8 clients: all ask the same page / distinct pages", same),
        Figure("pages a second, 64 clients: 2 workers / 1 worker", rates(found, "clients", *many)),
        Figure("time of a page after updates / before, over that of the same body", slower),
        Figure("pages a second after updates / before, over that of the same body", fewer),
    ]
