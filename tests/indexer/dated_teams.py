"""Teams updated on a day of January, and their company."""

from typing import Any

from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.records import envelope

DAYS = [f"2026-01-{day:02}T00:00:00Z" for day in range(1, 29)]


def team(name: str, day: int, identifier: str = "t") -> dict[str, Any]:
    return envelope(TEAM, {"uuid": identifier, "name": name}, updated_at=DAYS[day])


async def start(bench: Bench, *teams: dict[str, Any]) -> None:
    """Build the company of the test records, and its teams."""
    summary = await bench.build({COMPANY: [envelope(COMPANY)], TEAM: teams})
    assert summary.exit_code == 0
