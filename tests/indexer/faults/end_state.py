"""What is stored and left over after a run, to compare with what should be."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from cluster.control_index import Mark
from indexer.generations.lifecycle import GenerationLifecycle
from indexer.scan import scan_documents
from mappings import TEAM
from tests.indexer.conftest import Bench
from tests.indexer.raw_documents import without_history

COUNTS = ("read", "indexed", "unchanged", "stale", "merged", "dead", "vanished", "carried", "documents", "tombstones")


class StoredTeam(NamedTuple):
    """One stored team: its version, all bytes but the stamp, and the stamp."""

    version: int
    source: bytes
    clock: int
    sequence: int


async def stored_teams(bench: Bench) -> dict[str, StoredTeam]:
    """Return every live team, tombstones included."""
    found: dict[str, StoredTeam] = {}
    index = bench.connection.alias(TEAM)
    async for page in scan_documents(bench.engine(), index, query={"match_all": {}}, order="feed_key"):
        for document in page:
            fields = orjson.loads(document.source)
            source = without_history(document.source)
            found[document.id] = StoredTeam(document.version, source, fields["clock"], fields["sequence"])
    return found


def contents(teams: Mapping[str, StoredTeam]) -> dict[str, tuple[int, bytes]]:
    return {identifier: (one.version, one.source) for identifier, one in teams.items()}


def stamped_since(teams: Mapping[str, StoredTeam], mark: Mark) -> list[str]:
    """Return the teams with a sequence above a mark, ordered by sequence."""
    return sorted((name for name in teams if teams[name].sequence > mark.sequence), key=lambda name: teams[name][3])


def is_covered_by_mark(teams: Mapping[str, StoredTeam], mark: Mark) -> bool:
    """Whether every stamp is at or below a mark."""
    return all(one.clock <= mark.clock and one.sequence <= mark.sequence for one in teams.values())


def counts(report: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of the lines of a source and of the records that it lacks."""
    return {name: report[name] for name in COUNTS}


def accounted(report: Mapping[str, Any]) -> int:
    return int(report["indexed"] + report["unchanged"] + report["stale"] + report["merged"] + report["dead"])


def second_bench(bench: Bench, name: str = "undisturbed-") -> Bench:
    """Return another index prefix for a second run of the same source."""
    prefix = f"{bench.connection.prefix}{name}"
    letters = f"{bench.settings.dead_letter_folder}-{name}"
    connection, settings = replace(bench.connection, prefix=prefix), replace(bench.settings, dead_letter_folder=letters)
    return replace(bench, connection=connection, settings=settings)


async def leftovers(bench: Bench) -> list[str]:
    """Return what a finished run should have removed: locks, fences, checkpoints, other generations."""
    alias, control = bench.connection.alias(TEAM), bench.connection.control_index
    await bench.client.indices.refresh(index=control)
    found = await bench.client.search(index=control, size=100)
    documents = {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}
    left = [name for name in documents if name.startswith(("build-", "update-", "wanted-"))]
    left += [name for name, document in documents.items() if name.startswith("lock-") and document["holder"]]
    for kind in ("builder", "writer"):
        fences = await bench.client.indices.get_alias(name=f"{alias}-{kind}-*")
        left += [fence for body in fences.values() for fence in body["aliases"]]
    present = await GenerationLifecycle(bench.engine(), TEAM).generations()
    return left + [index for index in present.metas if index not in present.history[:2]]
