"""`brokerage index map` as a process: the map on standard output or in a file, the guesses on standard error."""

import subprocess
import sys
import tomllib
from pathlib import Path

START = "from brokerage.command import main; main(prog_name='brokerage')"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", START, "index", "map", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command


def test_a_map_is_printed_or_written_once(tmp_path: Path) -> None:
    table, written = tmp_path / "listings.csv", tmp_path / "map.toml"
    table.write_text("ListingKey,ListPrice\n1,\x1b[31m\n")
    printed = run(str(table), "--company", "acme", "--resource", "listings")
    assert printed.returncode == 0
    assert tomllib.loads(printed.stdout)["listings"]["record"] == {"PlatformListingId": {"column": "ListingKey"}}
    assert "ListPrice" in printed.stderr
    assert "\x1b[31m" not in printed.stderr
    saved = run(str(table), "--output", str(written))
    assert (saved.returncode, saved.stdout) == (0, "")
    assert tomllib.loads(written.read_text())["listings"]["files"] == ["listings.csv"]
    assert "Still to be set in the map: platform_company_id, listings.record.Status." in saved.stderr
    again = run(str(table), "--output", str(written))
    assert (again.returncode, again.stderr) == (1, f"{written} exists already: name another file, or delete it.\n")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none.csv"))
    assert result.returncode == 2
    assert result.stderr == (
        f"{tmp_path / 'none.csv'} does not exist: name a CSV file, an archive or a folder with such files.\n"
    )
