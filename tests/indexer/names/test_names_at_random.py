"""Names are those of the present agents and offices after each run, in whatever order things change, also if killed."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from mappings import AGENT, COMPANY, LISTING, OFFICE, Resource
from tests.indexer.conftest import Bench
from tests.indexer.faults.process_killer import KillPoint, killer
from tests.indexer.names.test_filled_names import COMPANIES, bench_is_as_its_source, nameless, served
from tests.indexer.troubles.test_random_breaks import nothing
from tests.records import deletion, envelope, identifier_of, write

_AGENTS = [identifier_of(AGENT, f"agent {number}") for number in range(3)]
_OFFICES = ["o1", "o2"]
_LISTINGS = [f"l{number}" for number in range(8)]
_TEXTS = [None, "Ann Lee", "Bob Ray", "Cyd Foy"]
_LOADED = (OFFICE, AGENT, LISTING)


@dataclass
class World:
    """A source: the newest line of each record."""

    chance: random.Random
    moment: int = 0
    lines: dict[Resource, dict[str, dict[str, Any]]] = field(default_factory=lambda: {of: {} for of in _LOADED})

    def change(self) -> tuple[Resource, dict[str, Any]]:
        """Change a record of the source and return its line."""
        self.moment += 1
        resource, pick = self.chance.choice(_LOADED), self.chance.choice
        made: dict[Resource, Callable[[], tuple[dict[str, Any], str]]] = {
            OFFICE: lambda: ({"name": pick(_TEXTS)}, pick(_OFFICES)),
            AGENT: lambda: ({"name": pick(_TEXTS), "first_name": None}, pick(_AGENTS)),
            LISTING: lambda: (self._listing(), pick(_LISTINGS)),
        }
        given, identifier = made[resource]()
        at = f"2026-01-02T00:{self.moment // 60:02}:{self.moment % 60:02}Z"
        line = deletion(resource, identifier, at)
        if self.chance.random() < 0.9:
            line = envelope(resource, {resource.identifier: identifier, **given}, updated_at=at)
        line["platform_company_id"] = pick(["acme", "acme", "child"])
        self.lines[resource][identifier] = line
        return resource, line

    def _listing(self) -> dict[str, Any]:
        pick = self.chance.choice
        references = {"ListAgentUUID": pick(_AGENTS), "SecondaryListAgentUUID": pick([None, *_AGENTS])}
        given = {"ListAgentFullName": pick([None, None, "A. Lee"]), "ListAgentPlatformOfficeID": pick(_OFFICES)}
        return nameless(LISTING, **references, **given)

    def expected(self) -> dict[str, dict[str, str | None]]:
        """Return the names of each listing."""
        live = {name: line for name, line in self.lines[LISTING].items() if "deleted" not in line}
        return {
            name: {of.member: line["record"][of.member] or self._name(line, of) for of in LISTING.names}
            for name, line in live.items()
        }

    def _name(self, line: dict[str, Any], of: Any) -> str | None:
        resource = AGENT if of.target == "agents" else OFFICE
        found = self.lines[resource].get(line["record"][of.reference])
        if found is None or "deleted" in found or found["platform_company_id"] != line["platform_company_id"]:
            return None
        name: str | None = found["record"]["name"]
        return name


async def names(bench: Bench) -> dict[str, dict[str, str | None]]:
    return {
        name: {of.member: one["record"][of.member] for of in LISTING.names}
        for name, one in (await served(bench)).items()
    }


@pytest.mark.seeds(1, 2)
async def test_names_are_those_of_now_after_each_run(
    bench: Bench, seed: int, amount: Callable[[int, int], int]
) -> None:
    world, folder = World(random.Random(seed)), bench.folder.parent / "turn"  # noqa: S311 - repeatable
    await bench.build({COMPANY: COMPANIES, OFFICE: [], AGENT: [], LISTING: []})
    async with killer(bench, seed) as doing:
        for turn in range(amount(8, 100)):
            changes = [world.change() for _ in range(world.chance.randint(1, 12))]
            kill = KillPoint("", world.chance.randint(10, 60), is_effective=world.chance.random() < 0.5)
            kills = [kill] if world.chance.random() < 0.5 else []
            updated: dict[Resource, list[dict[str, Any]]] = {of: [] for of in _LOADED}
            for resource, line in changes:
                updated[resource].append(line)
            if world.chance.random() < 0.4:
                # The resources that are not rebuilt get their changes by an update before.
                rebuilt = world.chance.sample(_LOADED, world.chance.randint(1, 3))
                write(
                    folder,
                    {of: lines for of, lines in updated.items() if of not in rebuilt} | {of: [] for of in rebuilt},
                )
                await doing.run([], "update", str(folder), between=nothing)
                write(folder, {COMPANY: COMPANIES, **{of: world.lines[of].values() for of in rebuilt}})
                aliases = [resource.alias for resource in (COMPANY, *rebuilt)]
                await doing.run(kills, "reindex", str(folder), *aliases, "--force", between=nothing)
                (folder / "companies.ndjson").unlink()
            else:
                write(folder, updated)
                await doing.run(kills, "update", str(folder), between=nothing)
            assert await names(bench) == world.expected(), turn
    before = {name: one["sequence"] for name, one in (await served(bench)).items()}
    await bench.build({COMPANY: COMPANIES, **{of: lines.values() for of, lines in world.lines.items()}}, force=True)
    assert await names(bench) == world.expected()
    assert {name: one["sequence"] for name, one in (await served(bench)).items()} == before
    assert await bench_is_as_its_source(bench)
