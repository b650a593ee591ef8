"""Messy tables, loaded by `brokerage index load` without editing a map: every row is served exactly or named.

`--soak` loads 60; `-s` prints those that were not loaded at once, and why.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mappings import LISTING
from tests.indexer.command.messy_tables import MessyRow, MessyTable, messy_table
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench


async def test_every_row_is_served_exactly_or_named(
    bench: Bench, tmp_path: Path, amount: Callable[[int, int], int]
) -> None:
    total, loaded = amount(6, 60), 0
    for seed in range(total):
        table, folder = messy_table(seed), tmp_path / f"seed-{seed}"
        folder.mkdir()
        (folder / "listings.csv").write_bytes(table.write())
        code, output = await _load(bench, folder)
        served = await _served(bench, f"seed-{seed}")
        await _check(table, served, output, f"seed {seed}: {', '.join(table.faults)}\n{output}")
        is_complete = all(row.is_lost or row.identifier in served for row in table.rows)
        loaded += is_complete
        if not is_complete:
            print(f"\nseed {seed}, exit code {code}: {', '.join(table.faults)}\n{output[-1500:]}")
    print(f"\n{loaded} of {total} tables are served at the first try")
    assert loaded >= total * 3 / 4


async def _load(bench: Bench, folder: Path) -> tuple[int, str]:
    """Load a table for a new company; return the exit code and what was printed, with the bad lines of the run."""
    letters = folder / "bad"
    given = ("load", folder / "listings.csv", "--company", folder.name, "--yes")
    code, out, err = await run(bench, *given, BROKERAGE_DEAD_LETTER_DIR=str(letters))
    written = [path.read_text() for path in letters.rglob("*") if path.is_file()] if letters.exists() else []
    return code, "\n".join([out, err, *written])


async def _served(bench: Bench, company: str) -> dict[str, dict[str, Any]]:
    """Return the records of a company that are not deleted."""
    if not await bench.client.indices.exists_alias(name=bench.connection.alias(LISTING)):
        return {}
    found = await bench.served(LISTING)
    return {name: one["record"] for name, one in found.items() if one["company"] == company and not one["deleted"]}


async def _check(table: MessyTable, served: dict[str, dict[str, Any]], output: str, context: str) -> None:
    assert "Traceback" not in output, context
    known = {row.identifier for row in table.rows if not row.is_lost}
    assert served.keys() <= known, context
    for row in table.rows:
        if row.is_lost or row.identifier not in served:
            # A table that is refused as a whole names why, not each of its lines.
            assert not served or _is_named(row, output), (row.line, context)
        else:
            wrong = _wrong(row, served[row.identifier], output)
            assert not wrong, (row.line, wrong, context)


def _is_named(row: MessyRow, output: str) -> bool:
    return re.search(rf'(:|line |lines |"line":\s?){row.line}\b', output) is not None


def _wrong(row: MessyRow, record: dict[str, Any], output: str) -> dict[str, tuple[Any, Any]]:
    """Return the fields of a record that have another value than they mean; doubtful ones may be empty and named."""
    return {
        field: (record[field], value)
        for field, value in row.values.items()
        if record[field] != value and not (field in row.doubtful and _is_said(field, record[field], output))
    }


def _is_said(field: str, value: object, output: str) -> bool:
    return (
        value in {None, "0"}
        and re.search(rf"{field}\b.*(left empty|without a value|placeholder|: 0)|columns are named", output) is not None
    )


@pytest.mark.parametrize("name", ["floats", "spreadsheet", "footer", "preamble", "report", "ambiguous_hour"])
async def test_small_files_as_people_have_them(bench: Bench, tmp_path: Path, name: str) -> None:
    """Each identifier of the small files is served, or its line is named."""
    shutil.copy(Path(__file__).parents[1] / "source" / "tables" / "cases" / f"{name}.csv", tmp_path / "listings.csv")
    _, output = await _load(bench, tmp_path)
    assert "Traceback" not in output
    assert await _served(bench, tmp_path.name), output
