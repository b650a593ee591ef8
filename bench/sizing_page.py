"""The tables of `docs/sizing.md`, written from `bench.sizing`: `python -m bench.sizing_page` renews them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report import between_marks
from bench.sizing import DOCS, Chosen, Measured, Size, measured_now
from bench.tables import table

if TYPE_CHECKING:
    from collections.abc import Callable

PAGE = DOCS / "sizing.md"
LISTINGS = (1_000_000, 100_000_000, 1_000_000_000)
_UNITS = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1, "B"))
_TIMES = ((86_400, "days"), (3_600, "h"), (60, "min"), (1, "s"))


def figures(value: float) -> str:
    """Return three significant figures, with separators and no exponent."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:.3g}"


def size(count: float) -> str:
    """Return bytes in the decimal unit that fits."""
    scale, unit = next((scale, unit) for scale, unit in _UNITS if count >= scale)
    return f"{figures(count / scale)} {unit}"


def time(seconds: float) -> str:
    """Return a time in the unit that fits: two of it at least."""
    scale, unit = next(((scale, unit) for scale, unit in _TIMES if seconds >= 2 * scale), _TIMES[-1])
    return f"{figures(seconds / scale)} {unit}"


def cores(count: float) -> str:
    """Return a number of cores; less than a tenth is said, not counted."""
    return figures(count) if count >= 0.1 else "< 0.1"


def _micro(seconds: float) -> str:
    return f"{figures(seconds * 1e6)} µs"


def inputs(of: Measured) -> str:
    """Return what was measured, for one listing, and where it stands."""
    bench, here, indexing = "`results.json`", "below", "[indexing](indexing.md)"
    rows = [
        ("index, one copy, merged", size(of.index_bytes), here),
        ("source", size(of.source_bytes), here),
        ("answer, plain", size(of.answer_bytes), f"{bench}, walks"),
        ("answer, gzip", size(of.gzip_bytes), f"{bench}, throughput"),
        ("service in a walk, pages of 1,000, processor", _micro(of.service_seconds), f"{bench}, walks"),
        ("Elasticsearch in a walk, processor", _micro(of.engine_seconds), f"{bench}, walks"),
        ("service, pages of 200, 8 clients, processor", _micro(of.page_service_seconds), f"{bench}, throughput"),
        ("Elasticsearch, the same, processor", _micro(of.page_engine_seconds), f"{bench}, throughput"),
        ("gzip in the service, processor", _micro(of.gzip_seconds), f"{bench}, throughput"),
        (
            "Elasticsearch with 5 % updated, of its time before",
            f"{figures(of.updated_factor)} times",
            f"{bench}, updates",
        ),
        ("walk, one client, pages of 1,000", f"{figures(of.walked_a_second)} a second", f"{bench}, walks"),
        ("first build", f"{figures(of.built_a_second)} a second", indexing),
        ("rebuild, every record looked up", f"{figures(of.rebuilt_a_second)} a second", indexing),
    ]
    return table(["a listing", "measured", "where"], rows)


def rates(of: Measured) -> str:
    """Return listings a second that one core hands out, each program for itself."""
    seconds = {
        "service, pages of 1,000, plain": of.service_seconds,
        "service, pages of 1,000, gzip": of.service_seconds + of.gzip_seconds,
        "service, pages of 200, plain": of.page_service_seconds,
        "Elasticsearch, pages of 1,000": of.engine_seconds,
        "Elasticsearch, pages of 1,000, 5 % updated": of.engine_seconds * of.updated_factor,
        "Elasticsearch, pages of 200": of.page_engine_seconds,
    }
    return table(
        ["who, and what", "listings a second a core"], [(name, figures(1 / each)) for name, each in seconds.items()]
    )


_ROWS: tuple[tuple[str, Callable[[Size], str]], ...] = (
    ("source", lambda of: size(of.listings * of.of.source_bytes)),
    ("index, one copy", lambda of: size(of.index_bytes)),
    ("shards of at most 40 GB", lambda of: f"{of.shards}"),
    ("disks between builds", lambda of: size(of.resting_bytes)),
    ("disks at the height of a rebuild", lambda of: size(of.building_bytes)),
    ("disks to have", lambda of: size(of.disk_bytes)),
    ("first build, one indexer", lambda of: time(of.listings / of.of.built_a_second)),
    ("rebuild, one indexer", lambda of: time(of.listings / of.of.rebuilt_a_second)),
    ("walk of everything, one client", lambda of: time(of.listings / of.of.walked_a_second)),
    ("listings a second, 10 partners' walks a day", lambda of: figures(of.rows_a_second)),
    ("network to partners, gzip", lambda of: f"{size(of.rows_a_second * of.of.gzip_bytes)}/s"),
    (
        "network to partners, plain, and from Elasticsearch",
        lambda of: f"{size(of.rows_a_second * of.of.answer_bytes)}/s",
    ),
    ("cores of the service, gzip", lambda of: cores(of.service_cores)),
    ("cores of Elasticsearch", lambda of: cores(of.engine_cores)),
    ("the same, 5 % updated", lambda of: cores(of.engine_cores * of.of.updated_factor)),
    ("replicas of the service, one core each", lambda of: f"{of.replicas}"),
    ("nodes of 16 cores and 4 TB", lambda of: f"{of.nodes}"),
    ("memory for the live index on each", lambda of: size(of.cache_bytes)),
)


def sizes(of: Measured) -> str:
    """Return what each number of listings takes."""
    columns = [Size(listings, of) for listings in LISTINGS]
    rows = [(name, *(shown(column) for column in columns)) for name, shown in _ROWS]
    return table(["", *(f"{listings:,}" for listings in LISTINGS)], rows)


def tables(of: Measured) -> str:
    """Return all that stands between the marks of the page."""
    largest = Chosen().shard_bytes / of.index_bytes
    return "\n\n".join(
        [
            "### What was measured",
            inputs(of),
            "### What a core hands out",
            rates(of),
            "### What it takes",
            sizes(of),
            f"One shard of 40 GB holds {figures(largest / 1e6)} million listings.",
        ]
    )


def renew() -> None:
    """Write the tables of the page anew; the text round them stays as it is."""
    PAGE.write_text(between_marks(PAGE.read_text(encoding="utf-8"), tables(measured_now())), encoding="utf-8")


if __name__ == "__main__":
    renew()
