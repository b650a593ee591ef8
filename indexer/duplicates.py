"""Identifiers that a source gives more than once: the history of one record, or a fault where companies differ.

Clean sources never come here: the engine reports an identifier that it has seen, and only then a second pass is made.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from indexer.intake import Chunk, Intake

if TYPE_CHECKING:
    from collections.abc import Iterator

    from elasticsearch import AsyncElasticsearch

    from indexer.loading import Job
    from indexer.source import Line
    from mappings import Resource

_LOOKED_UP_TOGETHER = 500


async def settle(client: AsyncElasticsearch, index: str, job: Job, repeated: set[str]) -> None:
    """Count the older envelopes of a record as superseded, and refuse those of other companies than the newest's.

    The index is refreshed: what it holds is the newest, since every write carries its version.
    """
    owners = await _owners(client, index, sorted(repeated))
    await asyncio.to_thread(_classify, job, owners)


def _classify(job: Job, owners: dict[str, str]) -> None:
    intake, found = Intake(job.resource, job.companies), set[str]()
    for line in _suspects(job, owners):
        draft = intake.accept(line, Chunk())
        owner = owners[draft.id]
        if draft.company != owner:
            reason = f"{draft.id} belongs to the company {owner}: no two companies may share an identifier"
            job.letters.add(line, f"record.{job.resource.identifier}", reason)
            continue
        job.report.superseded += draft.id in found
        found.add(draft.id)


async def _owners(client: AsyncElasticsearch, index: str, identifiers: list[str]) -> dict[str, str]:
    """Return the company of each record that the index holds."""
    owners: dict[str, str] = {}
    remaining = iter(identifiers)
    while some := list(islice(remaining, _LOOKED_UP_TOGETHER)):
        answer = await client.search(
            index=index,
            query={"bool": {"filter": {"terms": {"id": some}}}},
            docvalue_fields=[{"field": "feed_key"}],
            stored_fields="_none_",
            size=len(some),
        )
        for hit in answer["hits"]["hits"]:
            company, _, identifier = hit["fields"]["feed_key"][0].partition(":")
            owners[identifier] = company
    return owners


def _suspects(job: Job, owners: dict[str, str]) -> Iterator[Line]:
    """Yield the accepted lines of the given records; the others are skipped at the cost of their identifier alone."""
    decode = _identifier_decoder(job.resource)
    with job.source.open(job.resource) as reading:
        for line in reading.lines:
            if line.number not in job.letters.numbers and decode(line.data).record.identifier in owners:
                yield line


def _identifier_decoder(resource: Resource) -> Any:
    renamed = {"identifier": resource.identifier}
    record = msgspec.defstruct("Identified", [("identifier", str)], rename=renamed)
    return msgspec.json.Decoder(msgspec.defstruct("IdentifiedEnvelope", [("record", record)])).decode
