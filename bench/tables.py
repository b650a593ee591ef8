"""The measurements as tables in Markdown. A pure function of the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.arms import AFTER, BEFORE
from bench.figures import figures
from bench.measure import CLIENT, ENGINE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.results import Measured, Results
    from bench.spread import Spread

_MB = 1e6
_TITLES = {
    "latency": "One client: the time of a request",
    "throughput": "Throughput",
    "clients": "Throughput by clients and workers",
    "peers": "Beside the peer",
    BEFORE: "Before updates",
    AFTER: "After updates",
}


def everything(found: Results) -> str:
    """Return all tables, each under a heading."""
    parts = [_place(found), "### Figures", figure_table(found), _absent(found)]
    for name, measured in found.groups.items():
        parts += [f"### {_TITLES.get(name, name)}", _group(list(measured.values()))]
    parts += [_walks(found), _memory(found)]
    return "\n\n".join(filter(None, parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its first column is text, the others numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _place(found: Results) -> str:
    where = found.environment
    versions = ", ".join(f"{name} {version}" for name, version in where.versions.items())
    heap = "a node that was there already" if where.heap_mb is None else f"a heap of {where.heap_mb} MB"
    largest = max(where.companies.values(), default=0)
    return (
        f"Measured on {where.date}: {where.listings:,} listings, {largest:,} of them of the largest company, pages of "
        f"{where.page} and of {where.large_page}; {where.cores} cores ({where.processor}) shared by client, service "
        f"and Elasticsearch, which has {heap}; {versions}. Quarter points stand in brackets."
        + (f" The peer reads from: {found.peer_reads}." if found.peer_reads else "")
    )


def figure_table(found: Results) -> str:
    """Return the table of all figures: aim, what was measured, and whether it was reached."""
    words = {True: "reached", False: "**missed**", None: ""}
    rows = [
        [figure.name, figure.aim, _value(figure.value), words[figure.reached] if figure.value else "not measured"]
        for figure in figures(found)
    ]
    return table(["figure", "aim", "measured", ""], rows)


def _value(value: Spread | None) -> str:
    if value is None:
        return ""
    single = value.low == value.high
    return f"{value.median:.2f}" + ("" if single else f" ({value.low:.2f} to {value.high:.2f})")


def _absent(found: Results) -> str:
    if not found.absent:
        return ""
    return "Not measured in this run:\n\n" + "\n".join(f"- {name}: {reason}" for name, reason in found.absent.items())


def _group(measured: Sequence[Measured]) -> str:
    head = ["answered by", "what", "clients", "ms", "99 % within", "a second", "MB"]
    return table(
        [*head, *(f"CPU ms, {name}" for name in ("program", ENGINE, CLIENT))], [_row(each) for each in measured]
    )


def _row(each: Measured) -> list[str]:
    what = ", ".join(filter(None, [each.question, each.depth, "" if each.encoding == "identity" else each.encoding]))
    return [
        each.answers,
        what,
        str(each.clients),
        f"{_number(each.latency_ms.median)} ({_number(each.latency_ms.low)} to {_number(each.latency_ms.high)})",
        _number(each.p99_ms),
        f"{each.per_second.median:,.1f} ({each.per_second.low:,.1f} to {each.per_second.high:,.1f})",
        f"{each.bytes / _MB:.3f}",
        *(_number(each.cpu_ms[name]) if name in each.cpu_ms else "" for name in (each.answers, ENGINE, CLIENT)),
    ]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _walks(found: Results) -> str:
    if not found.walks:
        return ""
    rows = []
    for name, walks in found.walks.items():
        totals = sorted(walk.total for walk in walks)
        largest = sorted(max(walk.seconds.values()) for walk in walks)
        rate = found.environment.listings / totals[len(totals) // 2]
        used = {party: sum(walk.cpu_seconds[party] for walk in walks) / len(walks) for party in walks[0].cpu_seconds}
        shown = ", ".join(f"{party} {seconds:.1f}" for party, seconds in used.items() if seconds >= 0.05)
        rows.append([name, _range(totals), _range(largest), f"{rate:,.0f}", f"{walks[0].bytes / 1e9:.2f}", shown])
    head = ["walked by", "all, s", "largest company, s", "listings a second", "GB", "CPU seconds"]
    return "### Walks of all listings, one client\n\n" + table(head, rows)


def _range(values: Sequence[float]) -> str:
    middle = values[len(values) // 2]
    return f"{middle:.1f}" if len(values) == 1 else f"{middle:.1f} ({values[0]:.1f} to {values[-1]:.1f})"


def _memory(found: Results) -> str:
    memory = found.memory
    if memory is None:
        return ""
    peaks = ", ".join(f"{peak / _MB:.0f}" for peak in memory.peaks)
    in_flight = memory.clients * memory.page_bytes / _MB
    return (
        f"### Memory of a worker\n\nAt rest {memory.idle / _MB:.0f} MB; while {memory.clients} clients walk at once "
        f"at most {peaks} MB ({memory.how}), with {in_flight:.0f} MB of pages in flight."
    )
