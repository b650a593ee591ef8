"""Two brokerages that share one installation, each with a source of its own."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from indexer import IndexerContext, RebuildRequest, RunSummary, open_source, reindex
from indexer.documents.companies import BY_SOURCE, CoverageRequest
from indexer.scan import scan_documents
from mappings import COMPANY, RESOURCES, TEAM, Resource
from tests.indexer.conftest import Bench
from tests.records import envelope, write

NUMBERS = {"north": "7001", "south": "7002", "east": "7003"}


def company(key: str, **changes: Any) -> dict[str, Any]:
    return envelope(COMPANY, {"platform_company_id": key, "numeric_id": NUMBERS.get(key)}, **changes)


def team(owner: str, name: str, at: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the envelope of a team, changed at a minute of a day."""
    updated_at = f"2026-03-01T{at // 60:02}:{at % 60:02}:00Z"
    record = {"uuid": name, "name": f"{name} at {at}"}
    return envelope(TEAM, record, platform_company_id=owner, updated_at=updated_at, **changes)


def teams(owner: str, count: int, at: int = 0) -> list[dict[str, Any]]:
    """Return teams of a company, whose names begin with its key."""
    return [team(owner, f"{owner}-{number}", at) for number in range(count)]


@dataclass(frozen=True)
class Loader:
    """A brokerage's own source folder and indexer."""

    bench: Bench
    key: str

    def source(self, lines: Iterable[dict[str, Any] | bytes], **others: Iterable[dict[str, Any] | bytes]) -> str:
        """Write teams and the company itself; `others` are the lines of further resources by alias."""
        by_alias = {resource.alias: resource for resource in RESOURCES}
        given: dict[Resource, Iterable[dict[str, Any] | bytes]] = {COMPANY: [company(self.key)], TEAM: lines}
        given |= {by_alias[alias]: extra for alias, extra in others.items()}
        return str(write(self.bench.folder.parent / f"of-{self.key}", given))

    async def load(
        self,
        lines: Iterable[dict[str, Any] | bytes],
        covered: CoverageRequest = BY_SOURCE,
        resources: Collection[Resource] = (COMPANY, TEAM),
        **options: Any,
    ) -> RunSummary:
        """Rebuild from a source of the given teams; options are settings or `force`."""
        name = self.source(lines)
        is_forced = options.pop("force", False)
        with open_source(name) as source:
            engine = self.bench.engine(**options)
            return await reindex(engine, source, RebuildRequest(resources, covered, is_forced))


async def stored(engine: IndexerContext, resource: Resource = TEAM) -> dict[str, tuple[str, int, bytes]]:
    """Return company, version and all bytes, stamp included, of every live document, tombstones included."""
    found: dict[str, tuple[str, int, bytes]] = {}
    index = engine.connection.alias(resource)
    async for page in scan_documents(engine, index, query={"match_all": {}}, order="feed_key"):
        for document in page:
            fields = orjson.loads(document.source.replace(b"\t", b""))
            found[document.id] = (fields["company"], document.version, document.source)
    return found


def of(found: Mapping[str, tuple[str, int, bytes]], owner: str) -> dict[str, tuple[str, int, bytes]]:
    return {name: state for name, state in found.items() if state[0] == owner}


def live_names(found: Mapping[str, tuple[str, int, bytes]]) -> set[str]:
    return {name for name, (_, _, source) in found.items() if b'"deleted":false' in source}
