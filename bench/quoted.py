"""What README and docs/sizing.md quote of a run, as text; pure functions of the results."""

from pathlib import Path
from statistics import fmean
from typing import Final

from bench.questions import ENGINE, SERVICE, Arm
from bench.report import between_marks, figures, table
from bench.results import Commands, Copies, Measured, Results

_MISSING: Final = "A quotation needs all stages of a run."
_MEANINGS: Final = {
    "source_bytes": "bytes of the source",
    "index_share": "bytes of the index, one copy, for a byte of the source",
    "packed_share": "bytes of a gzip response for a byte of a plain one",
    "copy_service": "µs of a processor in the service, pages of 1,000",
    "copy_engine": "the same in Elasticsearch",
    "change_service": "µs in the service, page of changes",
    "change_engine": "the same in Elasticsearch",
    "packing": "µs in the service for gzip",
    "update": "µs in indexer and Elasticsearch for an updated listing",
    "loaded_a_second": "listings loaded per second",
    "rebuilt_a_second": "listings rebuilt per second",
}


def quote(found: Results, docs: Path) -> None:
    """Renew the quotations of a checkout, whose documentation is in `docs`."""
    for page, quotation in ((docs / "sizing.md", slope_table), (docs.parent / "README.md", readme_lines)):
        if page.exists():
            page.write_text(between_marks(page.read_text(encoding="utf-8"), quotation(found)), encoding="utf-8")


def slopes(found: Results) -> dict[str, float]:
    """Return what a listing takes, as `brokerage.size.Slopes` names it, in three digits."""
    copies, commands = _whole(found)
    identity, gzip = (
        _measured(found, Arm(SERVICE, depth="any", clients=8, encoding=each)) for each in ("identity", "gzip")
    )
    walked = {name: fmean(walk.cpu_seconds[name] for walk in found.walks) for name in (SERVICE, ENGINE)}
    changed = {name: fmean(each.cpu_seconds[name] for each in copies.ways["changes"]) for name in (SERVICE, ENGINE)}
    update, load, rebuild = (commands.taken[name] for name in ("update of 1 in 20", "load", "rebuild"))
    exact = {
        "source_bytes": commands.source_bytes / commands.listings,
        "index_share": commands.index_bytes / commands.source_bytes,
        "packed_share": gzip.bytes / identity.bytes,
        "copy_service": walked[SERVICE] / found.environment.listings * 1e6,
        "copy_engine": walked[ENGINE] / found.environment.listings * 1e6,
        "change_service": changed[SERVICE] / copies.listings * 1e6,
        "change_engine": changed[ENGINE] / copies.listings * 1e6,
        "packing": (gzip.cpu_ms[SERVICE] - identity.cpu_ms[SERVICE]) / found.environment.page * 1e3,
        "update": sum(update.cpu_seconds.values()) / update.records * 1e6,
        "loaded_a_second": load.records / load.seconds,
        "rebuilt_a_second": rebuild.records / rebuild.seconds,
    }
    return {name: float(f"{value:.3g}") for name, value in exact.items()}


def slope_table(found: Results) -> str:
    """Return the slopes as a table."""
    rows = [[_MEANINGS[name], f"{value:,g}"] for name, value in slopes(found).items()]
    return f"Measured on {found.environment.date}:\n\n" + table(["a listing", "measured"], rows)


def readme_lines(found: Results) -> str:
    """Return the figures of the README, a line each."""
    _, commands = _whole(found)
    values = {figure.name: figure.value.median for figure in figures(found) if figure.value}
    relay, postgres, fastapi, depth = (
        values[name]
        for name in (
            "pages per second: service / nginx relay of the same body",
            "pages per second: service / PostgreSQL peer",
            "pages per second: service / FastAPI peer",
            "page at 97 % of the largest company / first page, time",
        )
    )
    load = commands.taken["load"]
    return "\n".join(
        [
            f"- {relay:.2f} of the pages per second of nginx in front of the same Elasticsearch",
            f"- {postgres:.2f} times the pages of a feed on PostgreSQL, {fastapi:.1f} times those of one in FastAPI",
            f"- {depth:.2f} times the first page's response time at 97 % of the largest company",
            f"- {load.records / load.seconds:,.0f} listings per second loaded by one process",
        ]
    )


def _whole(found: Results) -> tuple[Copies, Commands]:
    if found.copies is None or found.commands is None or not found.walks:
        raise ValueError(_MISSING)
    return found.copies, found.commands


def _measured(found: Results, arm: Arm) -> Measured:
    measured = found.find("throughput", arm)
    if measured is None:
        raise ValueError(_MISSING)
    return measured
