"""The measurements as tables in Markdown. A pure function of the results."""

from collections.abc import Iterable, Sequence

from bench.figures import figures
from bench.measure import CLIENT, ENGINE
from bench.results import Measured, Results
from bench.spread import Spread

_MB = 1e6
_TITLES = {
    "latency": "One client: response time",
    "throughput": "Throughput",
    "clients": "Throughput by clients and workers",
}


def everything(found: Results) -> str:
    """Return all tables, each under a heading."""
    parts = [_place(found), "### Figures", figure_table(found), _absent(found)]
    for name, measured in found.groups.items():
        parts += [f"### {_TITLES.get(name, name)}", _group(list(measured.values()))]
    parts.append(_walks(found))
    return "\n\n".join(filter(None, parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its first column is text, the others numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _place(found: Results) -> str:
    where = found.environment
    versions = ", ".join(f"{name} {version}" for name, version in where.versions.items())
    heap = "an existing node" if where.heap_mb is None else f"a heap of {where.heap_mb} MB"
    largest = max(where.companies.values(), default=0)
    return (
        f"Measured on {where.date}: {where.listings:,} listings, {largest:,} of them of the largest company, pages of "
        f"{where.page} and of {where.large_page}; {where.cores} cores ({where.processor}) shared by client, service "
        f"and Elasticsearch, with {heap}; {versions}. Quartiles in brackets."
    )


def figure_table(found: Results) -> str:
    """Return the table of all figures: target, measured value, and whether the target was reached."""
    words = {True: "reached", False: "**missed**", None: ""}
    rows = [
        [figure.name, figure.aim, _value(figure.value), words[figure.reached] if figure.value else "not measured"]
        for figure in figures(found)
    ]
    return table(["figure", "target", "measured", ""], rows)


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
    head = ["arm", "request", "clients", "ms", "p99", "per second", "MB"]
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
    totals = sorted(walk.total for walk in found.walks)
    largest = sorted(max(walk.seconds.values()) for walk in found.walks)
    rate = found.environment.listings / totals[len(totals) // 2]
    parties = found.walks[0].cpu_seconds
    used = {party: sum(walk.cpu_seconds[party] for walk in found.walks) / len(found.walks) for party in parties}
    shown = ", ".join(f"{party} {seconds:.1f}" for party, seconds in used.items())
    row = ["service", _range(totals), _range(largest), f"{rate:,.0f}", f"{found.walks[0].bytes / 1e9:.2f}", shown]
    head = ["arm", "all, s", "largest company, s", "listings per second", "GB", "CPU seconds"]
    return "### Walks of all listings, one client\n\n" + table(head, [row])


def _range(values: Sequence[float]) -> str:
    middle = values[len(values) // 2]
    return f"{middle:.1f}" if len(values) == 1 else f"{middle:.1f} ({values[0]:.1f} to {values[-1]:.1f})"
