"""The plots of the page, as SVG. The same results give the same bytes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench import arms
from bench.arms import Arm
from bench.measure import ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from bench.results import Measured, Results

    Drawing = Callable[[Results, Axes], bool]

# Inches at 100 points each: 800 pixels wide.
_SIZE = (8.0, 4.5)
_STYLE: Any = {
    "svg.hashsalt": "bench",  # else the names within the file differ from run to run
    "svg.fonttype": "path",
    "font.size": 10,
    "figure.dpi": 100,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
}
_COLOURS = {
    arms.RAW: "#7f7f7f",
    arms.FLOOR: "#1f77b4",
    arms.SERVICE: "#d62728",
    arms.TWO_WORKERS: "#ff9896",
    arms.UNSORTED: "#bcbd22",
    arms.BY_ID: "#2ca02c",
    arms.BY_COMPANY: "#17becf",
    arms.PEER: "#9467bd",
}
_MARKERS = dict(zip(_COLOURS, "os^vDP*X", strict=True))
_BAR = 0.26


def draw(found: Results, folder: Path) -> dict[str, str]:
    """Write a file for each plot that there are measurements for; return their names and titles."""
    drawn: dict[str, str] = {}
    for name, (title, drawing) in _PLOTS.items():
        with _figure(title) as figure:
            if drawing(found, figure.add_subplot()):
                folder.mkdir(parents=True, exist_ok=True)
                figure.savefig(folder / name, format="svg", metadata={"Date": None, "Creator": None})
                drawn[name] = title
    return drawn


@contextmanager
def _figure(title: str) -> Iterator[Figure]:
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=_SIZE, layout="constrained", facecolor="white")
        figure.suptitle(title, fontsize=12)
        yield figure


def _depth(found: Results, axes: Axes) -> bool:
    depths = ("first", "half", "97 %")
    for name in (arms.RAW, arms.FLOOR, arms.SERVICE, *arms.TEXTBOOK):
        there = [found.find("latency", Arm(name, depth=depth)) for depth in depths]
        shown = [each for each in there if each is not None]
        if len(shown) == len(depths):
            _line(axes, name, depths, shown)
    axes.set_ylabel("ms for a page, one client")
    axes.set_xlabel("depth in the largest company")
    axes.set_ylim(bottom=0)
    return _legend(axes)


def _line(axes: Axes, name: str, depths: Sequence[str], shown: Sequence[Measured]) -> None:
    medians = [each.latency_ms.median for each in shown]
    below = [each.latency_ms.median - each.latency_ms.low for each in shown]
    above = [each.latency_ms.high - each.latency_ms.median for each in shown]
    style: dict[str, Any] = {"color": _COLOURS[name], "marker": _MARKERS[name], "capsize": 3, "linewidth": 2}
    axes.errorbar(depths, medians, yerr=[below, above], label=name, **style)


def _clients(found: Results, axes: Axes) -> bool:
    counts, names = (1, 8, arms.MOST_CLIENTS), (arms.RAW, arms.SERVICE, arms.TWO_WORKERS)
    for place, name in enumerate(names):
        for at, clients in enumerate(counts):
            measured = found.find("clients", Arm(name, depth="any", clients=clients))
            if measured is not None:
                rate = measured.per_second
                error = [[rate.median - rate.low], [rate.high - rate.median]]
                label = name if at == 0 else None
                style: dict[str, Any] = {"color": _COLOURS[name], "label": label, "yerr": error, "capsize": 3}
                axes.bar(at + (place - 1) * _BAR, rate.median, _BAR, **style)
    axes.set_xticks(range(len(counts)), [str(clients) for clients in counts])
    axes.set_xlabel("clients at once, each asking for pages at places of its own")
    axes.set_ylabel("pages a second")
    return _legend(axes)


def _processor(found: Results, axes: Axes) -> bool:
    bars = {
        "same body": found.find("throughput", Arm(arms.RAW, depth="any", clients=8)),
        "pass-through": found.find("throughput", Arm(arms.FLOOR, depth="any", clients=8)),
        "service": found.find("throughput", Arm(arms.SERVICE, depth="any", clients=8)),
        "service,\ngzip": found.find("throughput", Arm(arms.SERVICE, depth="any", clients=8, encoding="gzip")),
        "service,\nzstd": found.find("throughput", Arm(arms.SERVICE, depth="any", clients=8, encoding="zstd")),
        "FastAPI\npeer": found.find("peers", Arm(arms.PEER, depth="any", clients=8)),
    }
    shown = {name: measured for name, measured in bars.items() if measured is not None}
    own = {name: 0.0 if each.answers == arms.RAW else each.cpu_ms[each.answers] for name, each in shown.items()}
    engine = {name: each.cpu_ms.get(ENGINE, 0.0) for name, each in shown.items()}
    axes.bar(list(shown), list(engine.values()), 0.6, label="Elasticsearch", color=_COLOURS[arms.RAW])
    axes.bar(
        list(shown),
        list(own.values()),
        0.6,
        bottom=list(engine.values()),
        label="program in front of it",
        color=_COLOURS[arms.SERVICE],
    )
    axes.set_ylabel("ms of processor time for a page")
    return bool(shown) and _legend(axes)


def _walks(found: Results, axes: Axes) -> bool:
    totals = {name: sorted(walk.total for walk in walks) for name, walks in found.walks.items() if walks}
    for name, values in totals.items():
        middle = values[len(values) // 2]
        error = [[middle - values[0]], [values[-1] - middle]]
        axes.barh(name, middle, 0.6, color=_COLOURS[name], xerr=error, capsize=3)
    axes.invert_yaxis()
    axes.grid(visible=True, axis="x")
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"s for {found.environment.listings:,} listings, pages of {found.environment.large_page}")
    return bool(totals)


def _distribution(found: Results, axes: Axes) -> bool:
    for name in (arms.RAW, arms.FLOOR, arms.SERVICE):
        measured = found.find("latency", Arm(name))
        if measured is not None:
            percents = measured.percents_ms[:-1]
            axes.plot(percents, range(len(percents)), label=name, color=_COLOURS[name], linewidth=2)
    axes.set_xlabel("ms for a page, one client")
    axes.set_ylabel("% of the pages that came within")
    axes.set_xlim(left=0)
    return _legend(axes)


def _legend(axes: Axes) -> bool:
    """Add the legend; False where nothing was drawn."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.figure.legend(handles, labels, frameon=False, fontsize=9, loc="outside lower center", ncols=3)
    return bool(handles)


_PLOTS: Mapping[str, tuple[str, Drawing]] = {
    "depth.svg": ("Time of a page by depth", _depth),
    "clients.svg": ("Pages a second by clients", _clients),
    "processor.svg": ("Processor time of a page, 8 clients", _processor),
    "walks.svg": ("Walk of all listings", _walks),
    "distribution.svg": ("Times of the first page", _distribution),
}
