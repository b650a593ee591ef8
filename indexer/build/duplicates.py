"""Identifiers that a source contains more than once: versions of one record, or a fault where the companies differ.

Only sources with duplicates need this second pass: bulk responses report identifiers that existed before.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from indexer.changes.change_kind import at_live_time
from indexer.documents.builder import rejected_document
from indexer.documents.identification import identifier_decoder
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.indices.scan import look_up_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from indexer.build.build_job import BuildJob
    from indexer.context import IndexerContext
    from indexer.indices.scan import IndexRow
    from indexer.source.lines import SourceLine


class DuplicateCounts(NamedTuple):
    """How many envelopes are superseded by a newer one of the same source.

    `copied` counts the records whose indexed document is none of the envelopes but a copy of the live one.
    """

    superseded: int = 0
    copied: int = 0


async def resolve_duplicates(context: IndexerContext, index: str, job: BuildJob, repeated: set[str]) -> DuplicateCounts:
    """Classify every envelope of the repeated records; reject those of another company than the newest one's.

    The index must be refreshed. It holds the newest of each, since every write carries its version.
    """
    if not repeated:
        return DuplicateCounts()
    # Times were checked by the first pass; a clock that was set back since must not reject what is indexed.
    settings = replace(context.settings, future_seconds=math.inf)
    held = await look_up_rows(replace(context, settings=settings), index, sorted(repeated))
    return await asyncio.to_thread(_classify, LineParser(job.resource, job.companies, settings), job, held)


def _classify(parser: LineParser, job: BuildJob, held: Mapping[str, IndexRow]) -> DuplicateCounts:
    superseded, seen, indexed = 0, set[str](), set[str]()
    for line in _suspects(job, held):
        document = parser.parse(line, ParsedChunk())
        document = at_live_time(document, held[document.id])
        owner = held[document.id].company
        if document.company != owner:
            reason = f"{document.id} belongs to the company {owner}: no two companies may share an identifier"
            job.dead_letters.add(rejected_document(document, reason, f"record.{job.resource.identifier}"))
            continue
        superseded += document.id in seen
        seen.add(document.id)
        if (document.version, document.content) == (held[document.id].version, held[document.id].content):
            indexed.add(document.id)
    return DuplicateCounts(superseded, len(seen - indexed))


def _suspects(job: BuildJob, held: Mapping[str, IndexRow]) -> Iterator[SourceLine]:
    """Yield the accepted lines of the given records; of the others only the identifier is decoded."""
    decode = identifier_decoder(job.resource)
    with job.source.open(job.resource) as reading:
        for line in reading.accepted_lines:
            if line.position not in job.dead_letters.line_numbers and decode(line.data) in held:
                yield line
