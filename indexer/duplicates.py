"""Identifiers that a source gives more than once: the history of one record, or a fault where companies differ.

Clean sources never come here: the engine reports an identifier that it has seen, and only then a second pass is made.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from indexer.intake import Chunk, Intake
from indexer.scan import look_up

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from indexer.engine import Engine
    from indexer.job import Job
    from indexer.scan import Row
    from indexer.source import Line
    from mappings import Resource


class Settled(NamedTuple):
    """Of some records, how many envelopes a newer one of the same source supersedes.

    `copied` counts the records of which no envelope is what the index holds: that is a copy of what is live.
    """

    superseded: int = 0
    copied: int = 0


async def settle(engine: Engine, index: str, job: Job, repeated: set[str]) -> Settled:
    """Judge every envelope of the repeated records.

    Those of other companies than the newest's are refused. The index is refreshed: what it holds is the newest, since
    every write carries its version.
    """
    if not repeated:
        return Settled()
    return await asyncio.to_thread(_classify, job, await look_up(engine, index, sorted(repeated)))


def _classify(job: Job, held: Mapping[str, Row]) -> Settled:
    intake, superseded = Intake(job.resource, job.companies), 0
    found, taken = set[str](), set[str]()
    for line in _suspects(job, held):
        draft = intake.accept(line, Chunk())
        owner = held[draft.id].company
        if draft.company != owner:
            reason = f"{draft.id} belongs to the company {owner}: no two companies may share an identifier"
            job.letters.add(line, f"record.{job.resource.identifier}", reason)
            continue
        superseded += draft.id in found
        found.add(draft.id)
        if (draft.version, draft.content) == (held[draft.id].version, held[draft.id].content):
            taken.add(draft.id)
    return Settled(superseded, len(found - taken))


def _suspects(job: Job, held: Mapping[str, Row]) -> Iterator[Line]:
    """Yield the accepted lines of the given records; the others are skipped at the cost of their identifier alone."""
    decode = _identifier_decoder(job.resource)
    with job.source.open(job.resource) as reading:
        for line in reading.sound:
            if line.number not in job.letters.numbers and decode(line.data).record.identifier in held:
                yield line


def _identifier_decoder(resource: Resource) -> Any:
    renamed = {"identifier": resource.identifier}
    record = msgspec.defstruct("Identified", [("identifier", str)], rename=renamed)
    return msgspec.json.Decoder(msgspec.defstruct("IdentifiedEnvelope", [("record", record)])).decode
