"""Sources of many small teams that cover everything that can happen to a record between two of them."""

import datetime as dt
from pathlib import Path
from typing import Any

from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.records import deletion, envelope, write

Lines = list[dict[str, Any] | bytes]

FIRST, BEFORE, SECOND, NEWER = (f"2026-01-0{day}T00:00:00Z" for day in (1, 3, 5, 7))
# Later than any source is read, so that what a source lacks is newer than it, and not too far in the future.
BEYOND = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=6)).isoformat()
# Each names its record: what the source lacks may be in a line that does not, so such a line refuses removals.
BAD: Lines = [
    b'{"record": {"uuid": "undated"}}',
    envelope(TEAM, {"uuid": "foreign"}, platform_company_id="unknown"),
    b'{"updated_at": "soon", "record": {"uuid": "misdated"}}',
]


def team(number: int | str, name: str, updated_at: str) -> dict[str, Any]:
    return envelope(TEAM, {"uuid": f"t{number}", "name": name}, updated_at=updated_at)


def with_bad(lines: Lines) -> Lines:
    """Return lines with the invalid ones inserted: first, last, and one in the middle."""
    middle = len(lines) // 2
    return [BAD[0], *lines[:middle], BAD[1], *lines[middle:], BAD[2]]


def bad_numbers(lines: Lines) -> list[int]:
    return [number for number, line in enumerate(lines, 1) if line in BAD]


def first(count: int) -> Lines:
    """Return a source for the first build; some teams have a history in it, some are deleted."""
    lines: Lines = [team(n, "first", FIRST) for n in range(count)]
    again = [team(n, "corrected", BEFORE) for n in range(0, count, 97)]
    return with_bad([*lines, *again, *[deletion(TEAM, f"t{n}", BEFORE) for n in range(5, count, 89)]])


def live_changes(count: int) -> Lines:
    """Return the updates between two full sources: newer records, deletions, and some that the next one lacks."""
    newer: Lines = [team(n, "newer", NEWER) for n in range(1, count, 23)]
    gone: Lines = [deletion(TEAM, f"t{n}", NEWER) for n in range(2, count, 29)]
    return [*newer, *gone, deletion(TEAM, "never", NEWER), *[team(f"beyond{n}", "new", BEYOND) for n in range(7)]]


def second(count: int) -> Lines:
    """Return the next full source: a tenth changed, some new, some vanished, some deleted, some with a history."""
    lines: Lines = []
    for n in range(count):
        if n % 31 == 3:
            continue
        if n % 37 == 4:
            lines.append(deletion(TEAM, f"t{n}", SECOND))
        else:
            lines.append(team(n, "second", SECOND) if n % 10 == 0 else team(n, "first", FIRST))
        if n % 41 == 0:
            lines.append(team(n, "between", BEFORE))
    return with_bad([*lines, *[team(f"new{n}", "second", SECOND) for n in range(count // 20)]])


def source(bench: Bench, lines: Lines) -> Path:
    """Write teams and their company as the full source of a bench."""
    return write(bench.folder, {COMPANY: [envelope(COMPANY)], TEAM: lines})


def changes(bench: Bench, lines: Lines) -> Path:
    """Write teams as a separate source of changes."""
    return write(bench.folder.parent / "changes", {TEAM: lines})
