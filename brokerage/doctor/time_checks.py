"""Times in the future as `brokerage doctor` finds them: watermarks of a wrong clock, and records of a wrong source."""

import datetime as dt
import os
from collections.abc import Container, Mapping
from typing import Any

from elasticsearch import AsyncElasticsearch

from brokerage.doctor.record_checks import checked_records
from cluster.connection import ConnectionSettings
from cluster.control_index import Mark
from cluster.settings import load_settings
from indexer.clock import is_ahead, version_microseconds
from indexer.generations.lifecycle import future_query
from indexer.settings import IndexerSettings
from mappings import RESOURCES
from service.health.checks import Finding, FindingState

MARKS, RECORD_TIMES = "watermarks", "record times"
_EXAMPLES = 3
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


async def time_findings(
    client: AsyncElasticsearch, connection: ConnectionSettings, marks: Mapping[str, Mark], live: Container[str] = ()
) -> list[Finding]:
    """Check the watermarks, by alias, and the times of live records. Requires `read` on the indices.

    `live` has the aliases of the loaded resources.
    """
    settings = load_settings(IndexerSettings, os.environ)
    clocks = {one.alias: mark.clock for one in RESOURCES if (mark := marks.get(connection.alias(one)))}

    async def records() -> Finding:
        query = future_query(settings.future_seconds)
        found = {one.alias: await _search(client, connection.alias(one), query) for one in RESOURCES}
        return record_finding({name: hits for name, hits in found.items() if hits["total"]["value"]})

    aliases = {one.alias: connection.alias(one) for one in RESOURCES}
    missing = [name for name, alias in aliases.items() if alias in live and alias not in marks]
    of_marks = _missing_marks(missing) if missing else mark_finding(clocks, settings.clock_seconds)
    return [of_marks, await checked_records(RECORD_TIMES, records)]


async def _search(client: AsyncElasticsearch, alias: str, query: Mapping[str, Any]) -> Any:
    """Return the first hits of a query with their versions, none without an index."""
    answer = await client.search(
        index=alias,
        query=query,
        size=_EXAMPLES,
        source=False,
        docvalue_fields=[{"field": "version"}],
        track_total_hits=True,
        ignore_unavailable=True,
    )
    return answer["hits"]


def _missing_marks(names: list[str]) -> Finding:
    return Finding(
        subject=MARKS,
        state=FindingState.WARNING,
        problem="loaded resources have none, so consumers cannot follow them",
        detail=f"{', '.join(names)}.",
        remedy="`brokerage index restored` or the next `brokerage index update` creates them. If it persists, grant "
        "the service's user `read` on `control`.",
    )


def mark_finding(clocks: Mapping[str, int], tolerated_seconds: float) -> Finding:
    """Return whether a watermark, in milliseconds since 1970 by resource, is in the future."""
    ahead = {name: clock for name, clock in clocks.items() if is_ahead(clock, tolerated_seconds)}
    if not ahead:
        return Finding(subject=MARKS, detail="none is in the future")
    return Finding(
        subject=MARKS,
        state=FindingState.WARNING,
        problem="some are in the future, from a run under a wrong clock",
        detail=", ".join(f"{name} {_text(clock * 1000)}" for name, clock in ahead.items()) + ".",
        remedy=f"Run `brokerage index repair-clock {' '.join(ahead)}`.",
    )


def record_finding(found: Mapping[str, Any]) -> Finding:
    """Return whether live records are dated in the future, from the hits by resource."""
    if not found:
        return Finding(subject=RECORD_TIMES, detail="none is in the future")
    return Finding(
        subject=RECORD_TIMES,
        state=FindingState.WARNING,
        problem="some records are dated in the future",
        detail="; ".join(f"{name}: {hits['total']['value']:,}, {_examples(hits)}" for name, hits in found.items())
        + ".",
        remedy="Correct `updated_at` at the source, then send them again with `brokerage index update`, or rebuild "
        "with `brokerage index reindex`: every state with a right time replaces them.",
    )


def _examples(hits: Any) -> str:
    versions = {hit["_id"]: hit["fields"]["version"][0] for hit in hits["hits"]}
    return ", ".join(f"{name} ({_text(version_microseconds(version))})" for name, version in versions.items())


def _text(microseconds: int) -> str:
    return (_EPOCH + dt.timedelta(microseconds=microseconds)).strftime("%Y-%m-%d %H:%M UTC")
