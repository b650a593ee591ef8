"""How the fields of a resource are filled: shares, ranges, and the values of fields that have few."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mappings import Resource

_MAX_VALUES = 12
_MAX_CHARACTERS = 60
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_EMPTY: tuple[object, ...] = (None, "", [], {})


@dataclass
class FieldSummary:
    """A field: in how many records it has a value, the range of its numbers or texts, and its values if they are few.

    The range of a list is that of its length; texts are compared as numbers if all of them are numbers.
    """

    name: str
    filled: int = 0
    lowest: str | float | None = None
    highest: str | float | None = None
    values: dict[str, int] | None = field(default_factory=dict)
    _are_numbers: bool = field(default=True, init=False)
    _least_number: str = field(default="", init=False)
    _greatest_number: str = field(default="", init=False)

    def add(self, value: Any) -> None:
        """Count a value."""
        self.filled += 1
        measure = len(value) if isinstance(value, list | dict) else value
        if isinstance(measure, str):
            measure = measure[:_MAX_CHARACTERS]
            self._widen_numbers(measure)
        if not isinstance(measure, bool):
            self._widen(measure)
        self._count(str(measure))

    def _widen(self, value: Any) -> None:
        if self.lowest is None:
            self.lowest = self.highest = value
        elif type(value) is not type(self.lowest) and isinstance(value, str) != isinstance(self.lowest, str):
            return  # an untyped field may have texts and numbers
        elif value < self.lowest:
            self.lowest = value
        elif value > self.highest:
            self.highest = value

    def _widen_numbers(self, text: str) -> None:
        """Extend the range of texts that are numbers; the first other text ends it."""
        self._are_numbers = self._are_numbers and _NUMBER.fullmatch(text) is not None
        if not self._are_numbers:
            return
        if not self._least_number or float(text) < float(self._least_number):
            self._least_number = text
        if not self._greatest_number or float(text) > float(self._greatest_number):
            self._greatest_number = text

    def finish(self) -> None:
        """Settle the range, and order the values by frequency."""
        if self._are_numbers and self._least_number and isinstance(self.lowest, str):
            self.lowest, self.highest = self._least_number, self._greatest_number
        self.values = dict(Counter(self.values).most_common()) if self.values else None

    def _count(self, text: str) -> None:
        if self.values is None:
            return
        self.values[text] = self.values.get(text, 0) + 1
        if len(self.values) > _MAX_VALUES:
            self.values = None


class FieldStatistics:
    """The fields of one resource."""

    def __init__(self, resource: Resource) -> None:
        """Start with empty fields."""
        self._fields = {one.name: FieldSummary(one.name) for one in resource.stored}
        self.records = 0

    def add(self, record: dict[str, Any]) -> None:
        """Count the values of a record."""
        self.records += 1
        for name, value in record.items():
            if value not in _EMPTY:
                self._fields[name].add(value)

    @property
    def summaries(self) -> list[FieldSummary]:
        """The fields in the order of the contract; values by frequency."""
        for one in self._fields.values():
            one.finish()
        return list(self._fields.values())
