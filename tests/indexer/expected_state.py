"""A model of what must be served after rebuilds and updates, record by record."""

import asyncio
import datetime as dt
import os
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from cluster.connection import connect
from indexer import OnProgress, ResourceReport, RunStage, RunSummary
from mappings import COMPANY, TEAM
from tests.indexer.conftest import Bench
from tests.records import COMPANY_KEY, deletion, envelope, write

_DAYS = 36_500  # these records have no present-day times
BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


class TeamState(NamedTuple):
    """A record at a time, in seconds since BEGIN: its name, or None and the reason for its deletion."""

    moment: int
    name: str | None
    reason: str | None = None


def line(identifier: str, state: TeamState) -> dict[str, Any]:
    moment = (BEGIN + dt.timedelta(seconds=state.moment)).isoformat()
    if state.name is None:
        return deletion(TEAM, identifier, moment)
    return envelope(TEAM, {"uuid": identifier, "name": state.name}, updated_at=moment)


def state_of(document: dict[str, Any]) -> TeamState:
    moment = (document["version"] >> 10) // 1_000_000 - int(BEGIN.timestamp())
    name = None if document["deleted"] else document["record"]["name"]
    return TeamState(moment, name, document.get("reason"))


@dataclass
class ExpectedState:
    """The live records. No two updates have the same time, so the newest is never ambiguous."""

    live: dict[str, TeamState] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)  # by updates since the last build began

    def update(self, identifier: str, state: TeamState) -> None:
        """Apply an update: the newest wins, and the last state restores what a rebuild removed."""
        known = self.live.get(identifier)
        if known is None or state.moment > known.moment - (known.reason == "vanished"):
            self.live[identifier] = state
            self.written.add(identifier)

    def rebuild(self, before: dict[str, TeamState], source: dict[str, TeamState], taken_at: int) -> None:
        """Apply a full source to what was live `before` the build began and to the updates since."""
        for identifier, own in source.items():
            known = self.live.get(identifier)
            is_back = known is not None and known.reason == "vanished"
            if known is None or is_back or own.moment > known.moment or (own.moment == known.moment and known.name):
                self.live[identifier] = own
        for identifier, known in before.items():
            if identifier not in source and identifier not in self.written and known.name and known.moment <= taken_at:
                self.live[identifier] = TeamState(known.moment, None, "vanished")


def lines(changes: Iterable[tuple[str, TeamState]]) -> list[dict[str, Any]]:
    return [line(identifier, state) for identifier, state in changes]


def run_in_thread(bench: Bench, work: Callable[[Bench], Awaitable[Any]]) -> None:
    """Run some work in a thread of its own, and block the caller until it is done."""

    async def connected() -> None:
        async with connect(bench.connection, connections=4, timeout=60) as client:
            await work(replace(bench, client=client))

    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(connected())).result()


def update_job(bench: Bench, changes: dict[str, TeamState]) -> Callable[[], None]:
    """Return a job that applies some updates concurrently with its caller."""
    return lambda: run_in_thread(bench, lambda own: own.update({TEAM: lines(changes.items())}))


def at_stage(stage: RunStage, work: Callable[[], None]) -> OnProgress:
    """Return a progress callback that runs some work once, when the build of the teams enters a stage."""
    waiting = [work]

    def show(report: ResourceReport) -> None:
        if report.stage is stage and waiting:
            waiting.pop()()

    return show


async def start(bench: Bench, teams: dict[str, TeamState]) -> None:
    """Build the company of the test records, and its teams."""
    summary = await bench.build({COMPANY: [envelope(COMPANY)], TEAM: lines(teams.items())})
    assert summary.exit_code == 0


async def rebuild_summary(bench: Bench, teams: dict[str, TeamState], taken_at: int, **options: Any) -> RunSummary:
    """Rebuild the teams from a source as of `taken_at` seconds since BEGIN; the build may be refused."""
    folder = write(bench.folder, {TEAM: lines(teams.items())})
    modified = int(BEGIN.timestamp()) + taken_at
    os.utime(folder / "teams.ndjson", (modified, modified))
    return await bench.build_folder([TEAM], tombstone_days=_DAYS, **options)


async def rebuild(bench: Bench, teams: dict[str, TeamState], taken_at: int, **options: Any) -> None:
    """Rebuild the teams from a source as of `taken_at` seconds since BEGIN."""
    summary = await rebuild_summary(bench, teams, taken_at, **options)
    assert summary.exit_code == 0, summary


async def states(bench: Bench) -> dict[str, TeamState]:
    """Return the state of each team that is served of the company of the test records."""
    served = (await bench.served(TEAM)).items()
    return {identifier: state_of(document) for identifier, document in served if document["company"] == COMPANY_KEY}
