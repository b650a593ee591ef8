"""The records of one search, of the several that a page over a cut between shards takes."""

from collections.abc import Iterable
from dataclasses import dataclass

from mappings.resource import Resource
from service.audit.request_audit import RequestAudit
from service.http.payload import JsonBytes


@dataclass(frozen=True)
class RecordBatch:
    """Encoded records, the response that they are from, and the positions after each, None without an audit."""

    records: list[JsonBytes]
    response: bytes
    ends: list[int] | None

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.records)


def note_records(audit: RequestAudit, resource: Resource, batches: Iterable[RecordBatch], count: int) -> None:
    """Note for the audit that the first `count` records of some batches are sent."""
    for batch in batches:
        sent = min(len(batch), count)
        audit.hits(resource, batch.response, batch.ends, sent)
        count -= sent
