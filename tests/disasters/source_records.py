"""The source of a run: its records, and the changes that the indexer is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.chaos.machine_model import LONE, RecordForm, form_of, line
from tests.indexer.expected_state import TeamState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mappings import Resource

    Change = tuple[int, RecordForm | str]  # the number of a record, and what becomes of it

RECORDS = 9
_MOMENTS = 1_000  # seconds between two changes


class SourceRecords:
    """The records of one resource as their source knows them. Disasters do not change it."""

    def __init__(self, resource: Resource) -> None:
        """Start empty."""
        self.resource = resource
        self.live: dict[str, TeamState] = {}
        self._owner: dict[str, str] = {}
        self._number = 0

    def changed(self, changes: Sequence[Change]) -> list[dict[str, Any]]:
        """Apply changes, and return their lines."""
        self._number += 1
        names = [f"r{at}" for at, _ in changes]
        for name, (_, change) in zip(names, changes, strict=True):
            self.live[name] = state = self._state(self.live.get(name), change)
            if state.name is not None:
                self._owner[name] = form_of(state.name).company
        return self._lines(names)

    def _state(self, known: TeamState | None, change: RecordForm | str) -> TeamState:
        moment = self._number * _MOMENTS
        if change == "deletion":
            return TeamState(moment, None, "deleted")
        if change == "touch" and known is not None:
            return TeamState(moment, known.name, known.reason)
        form = change if isinstance(change, RecordForm) else RecordForm(LONE, "Active")
        return TeamState(moment, form.name(self._number))

    def full(self, lacking: frozenset[int] = frozenset(), company: str = "") -> list[dict[str, Any]]:
        """Return the lines of a full source, without some records, of all companies by default."""
        owned = [name for name in self.live if company in {"", self._owner.get(name, LONE)}]
        return self._lines([name for name in owned if int(name[1:]) not in lacking])

    def _lines(self, names: Sequence[str]) -> list[dict[str, Any]]:
        return [line(self.resource, name, self.live[name], self._owner.get(name, LONE)) for name in names]
