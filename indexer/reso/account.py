"""What a round brought, in lines for people: what was read, what could not be kept, and what it cost the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from indexer.report import Summary
    from indexer.reso.outbox import Outbox
    from indexer.reso.reader import Reader
    from indexer.reso.web import Traffic

# More fields with values that cannot be kept say nothing new.
_FIELDS_SHOWN = 20


@dataclass
class Round:
    """One round. `lines` say what changed; a round that changed nothing has none."""

    summary: Summary
    lines: list[str] = field(default_factory=list)


def lines(readers: Iterable[Reader], traffic: Traffic, outbox: Outbox) -> list[str]:
    """Return what is to be said since the last time, and begin to count anew."""
    said = [line for reader in readers for line in _of(reader)]
    if said:
        requests, received = traffic.requests.total(), traffic.received.total()
        said.append(f"{requests:,} requests, {received / 1e6:,.1f} MB from the source.")
    traffic.requests.clear()
    traffic.received.clear()
    return [*said, *_left_out(outbox)]


def _of(reader: Reader) -> Iterator[str]:
    counts = {"changed": reader.changed, "gone": reader.removed, f"without {reader.key}": reader.keyless}
    if any(counts.values()):
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        yield f"{reader.name}: {reader.report.read:,} read, {told}."
    reader.changed = reader.removed = reader.keyless = reader.report.read = 0


def _left_out(outbox: Outbox) -> Iterator[str]:
    for name, count in outbox.left_out.most_common(_FIELDS_SHOWN):
        yield f"{name}: {count:,} left out, that {outbox.examples[name]}."
    if (more := len(outbox.left_out) - _FIELDS_SHOWN) > 0:
        yield f"{more:,} more fields have values that were left out."
    outbox.left_out.clear()
    outbox.examples.clear()
