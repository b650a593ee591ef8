"""What `brokerage audit who` prints: the keys that were sent a record, and what the audit does not know."""

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from brokerage.keys.key_tables import key_state
from brokerage.long_table import Column, may_style, table_lines, terminal_width
from service.audit.reads import LIVE
from service.audit.store import AuditCoverage, CurrentRecord, Holder
from service.feed.streaming import iso_timestamp
from service.keys.api_key import ApiKey, DamagedKey

_COLUMNS = (
    Column("Key id"),
    Column("Name", may_fold=True),
    Column("Key"),
    Column("Resource"),
    Column("Last sent"),
    Column("Times"),
    Column("Sequence"),
    Column("State"),
    Column("Removal read"),
)
_NOTHING = "-"


@dataclass(frozen=True)
class AuditReport:
    """The answer for one identifier: the record in each resource, its holders, their keys, and what was recorded."""

    records: Sequence[CurrentRecord]
    holders: Sequence[Holder]
    keys: Mapping[str, ApiKey | DamagedKey]
    coverage: AuditCoverage
    now: dt.datetime

    def as_json(self) -> dict[str, Any]:
        """Return all of it; times are ISO 8601 in UTC."""
        return {
            "records": [
                {"resource": each.resource, "id": each.identifier, "state": each.state, "sequence": each.sequence}
                for each in self.records
            ],
            "holders": [self._holder(holder) for holder in self.holders],
            "recorded": [[_iso(start), _iso(end)] for start, end in self.coverage.periods()],
            "missing": self.missing(),
        }

    def _holder(self, holder: Holder) -> dict[str, Any]:
        current = next(each for each in self.records if each.resource == holder.resource)
        key = self.keys.get(holder.key_id)
        name = key.name if isinstance(key, ApiKey) else None
        state = key_state(key, self.now) if key else "unknown"
        return {**holder.as_json(current), "name": name, "key_state": state}

    def missing(self) -> list[str]:
        """Return a sentence for each time of which the audit does not know everything."""
        periods = self.coverage.periods()
        pauses = [
            f"Nothing was recorded from {_iso(end)} to {_iso(start)}: no process recorded."
            for (_, end), (start, _) in itertools.pairwise(periods)
        ]
        gaps = [
            f"{gap['lost']:,} records sent from {_iso(gap['since'])} to {_iso(gap['until'])} were not recorded: memory "
            "was full while Elasticsearch did not accept the audit."
            for gap in sorted(self.coverage.gaps, key=lambda gap: int(gap["since"]))
        ]
        broken = [
            f"A process ended, or cannot write, after {_iso(session['until'])}: what it sent since was not recorded."
            for session in self.coverage.broken(int(self.now.timestamp() * 1000))
        ]
        return [*pauses, *gaps, *broken] if periods else ["Nothing was recorded."]

    def lines(self) -> Iterator[str]:
        """Yield the lines for a terminal."""
        for record in self.records:
            yield f"{record.resource} {record.identifier}: {record.state}, sequence {record.sequence}"
        for start, end in self.coverage.periods():
            yield f"Recorded from {_iso(start)} to {_iso(end)}."
        yield from (f"Incomplete: {sentence}" for sentence in self.missing())
        rows = [self._holder(holder) for holder in self.holders]
        removed = sum(row["removal_read"] is not None for row in rows)
        yield f"{len(rows)} keys were sent it; {removed} of them have read since that it is gone."
        if rows:
            styles = ["yellow" if row["state"] == LIVE else "dim" for row in rows] if may_style() else ()
            yield from table_lines(_COLUMNS, [_cells(row) for row in rows], terminal_width(), styles)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    sent = row["last_sent"] or (f"{row['last_confirmed']} (304)" if row["last_confirmed"] else _NOTHING)
    state = f"{LIVE}, current" if row["is_current"] else row["state"]
    values = (
        row["key_id"],
        row["name"] or _NOTHING,
        row["key_state"],
        row["resource"],
        sent,
        str(row["times_sent"]),
        _NOTHING if row["sequence"] is None else str(row["sequence"]),
        state,
        row["removal_read"] or _NOTHING,
    )
    return tuple(values)


def _iso(milliseconds: int) -> str:
    return iso_timestamp(milliseconds).decode()
