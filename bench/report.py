"""The page of a run: its figures, some with a target, and its tables in Markdown. A pure function of the results.

A figure is a ratio of medians, with the quartiles of the ratios of each round.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from operator import itemgetter
from pathlib import Path
from statistics import fmean

from bench.questions import (
    CLIENT,
    ENGINE,
    FASTAPI,
    INDEXER,
    POSTGRES,
    RAW,
    RELAY,
    SERVICE,
    TEXTBOOKS,
    TWO_WORKERS,
    Arm,
    store_of,
)
from bench.results import Commands, Copies, Measured, Results, Spread, ratio, spread

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"
_EMPTY = f"# Performance\n\n{BEGIN}\n{END}\n"
_MB = 1e6
_TITLES = {
    "latency": "One client: response time",
    "throughput": "Throughput",
    "clients": "Throughput by clients and workers",
    "peers": "Beside what others would build",
}
_PAGE, _SAME_BODY = Arm(SERVICE), Arm(RAW)
_BUSY, _BUSY_SAME_BODY = Arm(SERVICE, depth="any", clients=8), Arm(RAW, depth="any", clients=8)


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
    two, one = (Arm(each, depth="any", clients=64) for each in (TWO_WORKERS, SERVICE))
    show, show_same_body = (Arm(each, "show", "", clients=8) for each in (SERVICE, RAW))
    gzip, zstd = (Arm(SERVICE, depth="any", clients=8, encoding=each) for each in ("gzip", "zstd"))
    deep, underscored = Arm(SERVICE, depth="97 %"), Arm(SERVICE, "underscore_response")
    same = Arm(SERVICE, depth="same", clients=8)
    relay, fastapi, postgres = (Arm(each, depth="any", clients=8) for each in (RELAY, FASTAPI, POSTGRES))
    agents = Arm(SERVICE, "agents", ""), Arm(RAW, "agents", "")
    return [
        Figure("pages per second: service / nginx relay of the same body", _peers(found, _BUSY, relay), least=0.8),
        Figure("pages per second: service / PostgreSQL peer", _peers(found, _BUSY, postgres), least=2.0),
        Figure("CPU time of a page: service / PostgreSQL peer", _processor_times(found, _BUSY, postgres), most=0.2),
        Figure("pages per second: service / FastAPI peer", _peers(found, _BUSY, fastapi), least=5.0),
        Figure("CPU time of a page: service / FastAPI peer", _processor_times(found, _BUSY, fastapi), most=0.1),
        Figure("pages per second at 97 %: service / best textbook index", _best_textbook(found), least=2.0),
        Figure("pages per second, 8 clients: service / same body", _rates(found, _BUSY, _BUSY_SAME_BODY), least=0.72),
        Figure("page at 97 % of the largest company / first page, time", _times(found, deep, _PAGE), most=1.10),
        Figure("pages per second, 8 clients: gzip / identity", _rates(found, gzip, _BUSY), least=0.8),
        Figure("pages per second, 8 clients: zstd / identity", _rates(found, zstd, _BUSY)),
        Figure("page, 1 client: underscored / plain, time", _times(found, underscored, _PAGE), most=1.35),
        Figure("page, 1 client: RESO Property / feed, time", _times(found, Arm(SERVICE, "Property"), _PAGE), most=1.3),
        Figure("shows per second, 8 clients: service / same body", _rates(found, show, show_same_body), least=0.5),
        Figure("CPU ms of the service for a show, 8 clients", _milliseconds(found, show), most=0.42),
        Figure("100 agents, 1 client: service / same body, time", _times(found, *agents), most=1.3),
        Figure("MB from Elasticsearch for a page of 200", _megabytes(found, _SAME_BODY), most=1.46),
        Figure("CPU seconds of the service per gigabyte", _seconds_a_gigabyte(found), most=1.8),
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


def _peers(found: Results, arm: Arm, base: Arm) -> Spread | None:
    return _rates(found, arm, base, "peers")


def _best_textbook(found: Results) -> Spread | None:
    """Compare the service with the fastest of the textbook indices."""
    deep = [Arm(order, depth="97 %", clients=8) for order in TEXTBOOKS]
    measured = [(rate.per_second.median, arm) for arm in deep if (rate := found.find("peers", arm)) is not None]
    if not measured:
        return None
    return _peers(found, Arm(SERVICE, depth="97 %", clients=8), max(measured, key=itemgetter(0))[1])


def _processor_times(found: Results, arm: Arm, base: Arm) -> Spread | None:
    """Compare the processor time of a request in two programs, without their stores."""
    one, other = found.find("peers", arm), found.find("peers", base)
    if one is None or other is None or not other.cpu_ms[other.answers]:
        return None
    return spread([one.cpu_ms[one.answers] / other.cpu_ms[other.answers]])


def _seconds_a_gigabyte(found: Results) -> Spread | None:
    """Return the CPU seconds of the service per 10^9 bytes of bodies."""
    busy = found.find("throughput", _BUSY)
    return None if busy is None else spread([busy.cpu_ms[busy.answers] / 1000 / busy.bytes * 1e9])


def _milliseconds(found: Results, arm: Arm) -> Spread | None:
    """Return the processor time of the program for a request."""
    measured = found.find("throughput", arm)
    return None if measured is None else spread([measured.cpu_ms[measured.answers]])


def _megabytes(found: Results, arm: Arm) -> Spread | None:
    """Return the size of a body."""
    measured = found.find("latency", arm)
    return None if measured is None else spread([measured.bytes / _MB])


class ReportError(Exception):
    """The page cannot be written; the message is one sentence."""


def report(found: Results, docs: Path) -> None:
    """Write the chart, and the tables between the marks of the page; the text around them stays as it is."""
    page = docs / "performance.md"
    text = page.read_text(encoding="utf-8") if page.exists() else _EMPTY
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(between_marks(text, tables(found)), encoding="utf-8")
    if (drawn := chart(found)) is not None:
        target = docs / "performance" / "pages.svg"
        target.parent.mkdir(exist_ok=True)
        target.write_text(drawn, encoding="utf-8")


def between_marks(text: str, body: str) -> str:
    """Return the text with `body` between its markers, replacing the previous content."""
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ReportError(f"The page lacks {BEGIN} or, after it, {END}.")
    return f"{before}{BEGIN}\n\n{body}\n\n{END}{after}"


def tables(found: Results) -> str:
    """Return all tables, each under a heading."""
    parts = [_place(found), "### Figures", figure_table(found), _absent(found)]
    for name, measured in found.groups.items():
        parts += [f"### {_TITLES.get(name, name)}", _group(list(measured.values()))]
    parts += [_walks(found), _copies(found.copies), _commands(found.commands)]
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
        [*head, *(f"CPU ms, {name}" for name in ("program", "store", CLIENT))], [_row(each) for each in measured]
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
        *(
            _number(each.cpu_ms[name]) if name in each.cpu_ms else ""
            for name in (each.answers, store_of(each.answers), CLIENT)
        ),
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


def _copies(copies: Copies | None) -> str:
    if copies is None:
        return ""
    rows = []
    for way, taken in copies.ways.items():
        seconds = spread([each.seconds for each in taken])
        used = {name: fmean(each.cpu_seconds[name] for each in taken) for name in taken[0].cpu_seconds}
        rows.append(
            [
                way,
                f"{seconds.median:.2f} ({seconds.low:.2f} to {seconds.high:.2f})",
                f"{copies.listings / seconds.median:,.0f}",
                f"{taken[0].bytes / _MB:,.0f}",
                *(f"{used[name] / copies.listings * 1e6:.1f}" if name in used else "" for name in (SERVICE, ENGINE)),
            ]
        )
    head = ["way", "s", "listings per second", "MB", "CPU µs a listing, service", "CPU µs a listing, Elasticsearch"]
    return (
        f"### Copies of a company of {copies.listings:,} listings, one client\n\n{table(head, rows)}\n\nThe worker "
        f"started in {copies.start_seconds:.1f} s, and held {copies.memory_at_rest / _MB:.0f} MB after the start and "
        f"{copies.memory_at_most / _MB:.0f} MB at most."
    )


def _commands(commands: Commands | None) -> str:
    if commands is None:
        return ""
    rows = [
        [
            name,
            f"{step.records:,}",
            f"{step.seconds:.1f}",
            f"{step.records / step.seconds:,.0f}",
            *(f"{step.cpu_seconds[name]:.1f}" if name in step.cpu_seconds else "" for name in (INDEXER, ENGINE)),
            f"{step.memory / _MB:.0f}",
        ]
        for name, step in commands.taken.items()
    ]
    head = ["command", "records", "s", "records per second", "CPU s, indexer", "CPU s, Elasticsearch", "MB at most"]
    source, index = (f"{size / _MB:,.0f} MB" for size in (commands.source_bytes, commands.index_bytes))
    return (
        f"### The indexer, {commands.listings:,} listings\n\n{table(head, rows)}\n\n"
        f"Once each, in this order. The source has {source}, the index after the load {index}."
    )


def _range(values: Sequence[float]) -> str:
    middle = values[len(values) // 2]
    return f"{middle:.1f}" if len(values) == 1 else f"{middle:.1f} ({values[0]:.1f} to {values[-1]:.1f})"


# The chart: pages a second of the service and its peers, as SVG for README and docs.
_WIDTH, _LABELS, _NUMBERS, _ROW_HEIGHT, _BAR = 720, 260, 70, 34, 20
_STYLE = (
    "text{font:14px system-ui,sans-serif;fill:#1f2328}.bar{fill:#8c959f}.ours{fill:#0969da}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.bar{fill:#6e7681}.ours{fill:#4493f8}}"
)


def chart(found: Results) -> str | None:
    """Return the chart as SVG, None if the peers were not measured. Only the fastest textbook index is shown."""
    rates = {
        answers: measured.per_second.median
        for answers in (RAW, RELAY, SERVICE, FASTAPI, POSTGRES, *TEXTBOOKS)
        if (measured := found.find("peers", Arm(answers, depth="any", clients=8))) is not None
    }
    if SERVICE not in rates:
        return None
    slower = sorted((order for order in TEXTBOOKS if order in rates), key=rates.__getitem__)[:-1]
    shown = sorted(rates.keys() - set(slower), key=rates.__getitem__, reverse=True)
    scale = (_WIDTH - _LABELS - _NUMBERS) / max(rates.values())
    rows = "".join(_chart_row(at, answers, rates[answers], scale) for at, answers in enumerate(shown))
    height = _ROW_HEIGHT * (len(shown) + 1)
    title = f"Pages of {found.environment.page} listings a second, 8 clients, {found.environment.listings:,} listings"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{title}">'
        f'<style>{_STYLE}</style><text x="0" y="20" font-weight="600">{title}</text>{rows}</svg>\n'
    )


def _chart_row(at: int, answers: str, rate: float, scale: float) -> str:
    top = _ROW_HEIGHT * (at + 1)
    kind = "ours" if answers == SERVICE else "bar"
    return (
        f'<text x="{_LABELS - 8}" y="{top + 15}" text-anchor="end">{escape(answers)}</text>'
        f'<rect class="{kind}" x="{_LABELS}" y="{top}" width="{rate * scale:.1f}" height="{_BAR}" rx="2"/>'
        f'<text x="{_LABELS + rate * scale + 8:.1f}" y="{top + 15}">{rate:,.0f}</text>'
    )
