"""The report of a round: records read, values left out, and requests to the source."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from indexer.reporting.report import RunSummary
from indexer.reso.client.reso_client import SourceTraffic
from indexer.reso.publish.outbox import Outbox
from indexer.reso.sync.child_records import ChildRecords
from indexer.reso.sync.entity_reader import EntityReader

# A longer list of fields with unmappable values would add nothing.
_MAX_FIELDS_SHOWN = 20


@dataclass
class RoundResult:
    """The result of a round; `lines` is empty if nothing changed."""

    summary: RunSummary
    lines: list[str] = field(default_factory=list)


def summarize_round(
    readers: Iterable[EntityReader | ChildRecords], traffic: SourceTraffic, outbox: Outbox
) -> list[str]:
    """Return the report since the last call, and reset all counters."""
    lines = [line for reader in readers for line in _reader_lines(reader)]
    if lines:
        requests, received = traffic.requests.total(), traffic.received.total()
        lines.append(f"{requests:,} requests, {received / 1e6:,.1f} MB from the source.")
    traffic.requests.clear()
    traffic.received.clear()
    return [*lines, *_omitted_lines(outbox)]


def _reader_lines(reader: EntityReader | ChildRecords) -> Iterator[str]:
    counts = {"changed": reader.changed, "removed": reader.removed, f"without {reader.key}": reader.without_key}
    if any(counts.values()):
        changes = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        yield f"{reader.name}: {reader.report.read:,} read, {changes}."
    if isinstance(reader, ChildRecords) and reader.fewer:
        yield (
            f"{reader.name}: {reader.fewer:,} of {reader.parent} have fewer than {reader.form.counted_by} says; "
            f"for example, {reader.example}."
        )
        reader.fewer, reader.example = 0, ""
    reader.changed = reader.removed = reader.without_key = reader.report.read = 0


def _omitted_lines(outbox: Outbox) -> Iterator[str]:
    for name, count in outbox.omitted.most_common(_MAX_FIELDS_SHOWN):
        yield f"{name}: {count:,} left out; for example, {outbox.omitted_examples[name]}."
    if (more := len(outbox.omitted) - _MAX_FIELDS_SHOWN) > 0:
        yield f"{more:,} more fields have values that were left out."
    outbox.omitted.clear()
    outbox.omitted_examples.clear()
