"""Random histories of records that move between companies: no consumer of any scope ever ends with a wrong copy."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from indexer import RefusedError, RunStage, rollback
from indexer.reporting.report import ignore_progress
from mappings import COMPANY, TEAM
from tests.indexer.changes.scope_consumers import COMPANIES, KEYS, ConsumerView, begin, read_view, team, wrong_copies
from tests.indexer.conftest import Bench
from tests.indexer.expected_state import at_stage, run_in_thread
from tests.records import write

NAMES = [f"t{number}" for number in range(6)]
STAGES = [RunStage.READING, RunStage.COMPARING, RunStage.FINISHING, RunStage.SWAPPING]
_EVER = {"tombstone_days": 36_500.0}


@dataclass
class History:
    """Events of a few teams. There are few times, so that one occurs for several states."""

    bench: Bench
    chance: random.Random
    looks: list[ConsumerView] = field(default_factory=list)
    moment: int = 100

    def line(self, identifier: str) -> dict[str, Any]:
        """Return an upsert, a move or a deletion, some of them late."""
        moment = self.moment + self.chance.choice([-3, -1, 0, 0, 0])
        name = self.chance.choice(["one", "two", "one", None])
        return team(identifier, self.chance.choice(KEYS), moment, name)

    def lines(self) -> list[dict[str, Any]]:
        """Return a line of most teams, some of them twice."""
        self.moment += self.chance.choice([0, 1, 2])
        names = self.chance.sample(NAMES, self.chance.randint(2, len(NAMES)))
        return [self.line(identifier) for identifier in names]

    async def update(self, bench: Bench | None = None) -> None:
        """Apply some lines in small batches, and read the result after each run."""
        bench = bench or self.bench
        await bench.update({TEAM: [*self.lines(), *self.lines()]}, bulk_documents=3, **_EVER)
        self.looks.append(await read_view(bench))

    async def rebuild(self) -> None:
        """Rebuild from some lines, with an update at some of the stages."""
        write(self.bench.folder, {COMPANY: COMPANIES, TEAM: self.lines()})
        stage = at_stage(self.chance.choice(STAGES), partial(run_in_thread, self.bench, self.update))
        stage = stage if self.chance.random() < 0.7 else ignore_progress
        days = self.chance.choice([36_500.0, 36_500.0, 0.0])
        summary = await self.bench.build_folder([TEAM], force=True, tombstone_days=days, on_progress=stage)
        assert summary.report_for("teams").refusal is None, summary
        self.looks.append(await read_view(self.bench))

    async def go_on(self) -> None:
        """Take one step, and check that every consumer that has read before arrives at the present state."""
        kind = self.chance.random()
        if kind < 0.08:
            with suppress(RefusedError):  # there is nothing to go back to
                await rollback(self.bench.engine(**_EVER), TEAM)
            self.looks.append(await read_view(self.bench))
        else:
            await (self.update() if kind < 0.55 else self.rebuild())
        for index, now in enumerate(self.looks):
            assert wrong_copies(now, self.looks[:index]) == []


@pytest.mark.seeds(1, 2)
async def test_every_consumer_of_one_or_two_companies_ends_with_what_is_live(
    bench: Bench, amount: Callable[[int, int], int], seed: int
) -> None:
    await begin(bench, *[team(name, KEYS[at % 3], 90) for at, name in enumerate(NAMES)])
    history = History(replace(bench), random.Random(seed))  # noqa: S311 - repeatable
    history.looks.append(await read_view(bench))
    for _ in range(amount(6, 150)):
        await history.go_on()
    assert len({view.sequence for view in history.looks}) > 4
