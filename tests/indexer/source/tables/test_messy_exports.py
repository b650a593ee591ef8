"""Made-up messy exports: every row is served exactly as it was meant, or named in the report; `--soak` for 50."""

import random
from collections.abc import Callable
from pathlib import Path

import orjson

from indexer import open_source
from indexer.inspection import check_source
from mappings import LISTING
from tests.indexer.conftest import Bench
from tests.indexer.source.tables.messy_exports import MessyExport


async def test_every_row_is_served_exactly_or_named(
    bench: Bench, tmp_path: Path, amount: Callable[[int, int], int]
) -> None:
    served = bad = 0
    for seed in range(amount(4, 50)):
        folder = tmp_path / f"seed-{seed}"
        folder.mkdir()
        export = MessyExport(folder, random.Random(seed))  # noqa: S311 - made-up values
        await _check(bench, export, seed)
        served, bad = served + len(export.records), bad + len(export.bad)
    print(f"\n{served:,} rows served exactly, {bad:,} named")


async def _check(bench: Bench, export: MessyExport, seed: int) -> None:
    """Load an export, and compare what is served and named with what it means."""
    with open_source(str(export.folder / "map.toml")) as source:
        checked = check_source(source)
        summary = await bench.build_source(source, force=True, dead_letter_limit=1.0)
    report = summary.report_for("listings")
    assert checked.bad == len(export.bad), (seed, checked.resources[-1].faults)
    documents = await bench.served(LISTING)
    found = {
        name: {key: one["record"][key] for key in export.records[name]}
        for name, one in documents.items()
        if not one["deleted"]
    }
    assert found == export.records, seed
    assert _named(report.dead_letters) == export.bad, seed


def _named(dead_letters: str | None) -> set[tuple[str, int]]:
    """Return the files and lines in a dead-letter file."""
    entries = map(orjson.loads, Path(dead_letters).read_bytes().splitlines() if dead_letters else [])
    return {(entry["file"], entry["line"]) for entry in entries}
