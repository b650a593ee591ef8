"""The data of a run: generated listings behind the service's aliases, and a key."""

import tempfile
from dataclasses import replace
from pathlib import Path

from elasticsearch import AsyncElasticsearch, NotFoundError

from bench.progress import Progress
from cluster.connection import ConnectionSettings, connect
from indexer import IndexerContext, IndexerSettings, ResourceReport, open_source, reindex
from mappings import AGENT, COMPANY, LISTING, OFFICE, TEAM
from sample import write_source
from service.keys.store import KeyGrant, KeyStore

# No arm reads sold listings, and loading them would take half as long again.
_LOADED = (COMPANY, OFFICE, AGENT, TEAM, LISTING)
_PATIENT_SECONDS = 24 * 3600.0
_DELETED_TOGETHER = 20


async def load(connection: ConnectionSettings, listings: int, progress: Progress) -> str:
    """Load missing data, and return an API key that reads everything."""
    async with connect(connection, connections=8, timeout=_PATIENT_SECONDS) as client:
        if await _count(client, connection.alias(LISTING)) != listings:
            await _generate(client, connection, listings, progress)
        # What an earlier run changed lies in segments of its own.
        await client.indices.forcemerge(index=connection.alias(LISTING), max_num_segments=1)
        await client.indices.refresh(index=connection.alias(LISTING))
        grant = KeyGrant("bench", all_companies=True, rate=None)
        return (await KeyStore(client, connection.keys_index).create(grant)).reveal()


async def unload(connection: ConnectionSettings) -> None:
    """Delete all indices with the run's prefix."""
    async with connect(connection, connections=1, timeout=60) as client:
        names = list(await client.indices.get(index=f"{connection.prefix}*", expand_wildcards="all"))
        for at in range(0, len(names), _DELETED_TOGETHER):
            await client.indices.delete(index=names[at : at + _DELETED_TOGETHER])


async def _generate(
    client: AsyncElasticsearch, connection: ConnectionSettings, listings: int, progress: Progress
) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-source-") as name:
        folder = Path(name)
        write_source(
            folder / "source",
            listings,
            on_progress=lambda resource, done: progress.report_occasionally(f"writing {resource}: {done:,}"),
        )
        (folder / "source" / "sold_listings.ndjson").unlink()
        settings = replace(IndexerSettings(), dead_letter_folder=str(folder / "dead-letters"), kept_generations=1)

        def show(report: ResourceReport) -> None:
            progress.report_occasionally(f"loading {report.resource}: {report.read:,} read, {report.stage}")

        with open_source(str(folder / "source")) as source:
            summary = await reindex(
                IndexerContext(client, connection, settings), source, resources=_LOADED, force=True, on_progress=show
            )
    if summary.exit_code:
        raise RuntimeError("The sample data was not loaded: " + "; ".join(str(each) for each in summary.resources))


async def _count(client: AsyncElasticsearch, alias: str) -> int:
    try:
        return int((await client.count(index=alias))["count"])
    except NotFoundError:
        return 0
