"""Matchers of lookups, whose names are derived from codes or from the presence of a field."""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mappings.values.normalization import alphanumeric_key
from service.reso.filter.matchers import MATCH_ALL, MATCH_NONE, EqualityMatcher, UnsupportedComparison
from service.search.query import Clause, lacks_field, match_any, match_none, terms

# Characters of a lookup value; names have up to 50.
_MAX_LOOKUP_LENGTH = 128


def _lookup_keys(values: Sequence[str], names: Collection[str], known: Container[str]) -> set[str]:
    """Return the normal forms of lookup values, without case and punctuation.

    `known` are those of the valid names; raise UnsupportedComparison for any other value.
    """
    # One by one and each once: normalization takes 0.1 µs per character.
    keys = {value: alphanumeric_key(value) if len(value) <= _MAX_LOOKUP_LENGTH else "" for value in {*values}}
    if unknown := [value for value, key in keys.items() if key not in known]:
        raise UnsupportedComparison(f"has no value {unknown[0][:40]!r}; it is one of {', '.join(names)}")
    return {*keys.values()}


@dataclass(frozen=True)
class CodeMatcher(EqualityMatcher):
    """A lookup whose names are indexed as codes: `codes` maps each name to its codes."""

    name: str
    codes: Mapping[str, tuple[object, ...]] = field(hash=False)

    @cached_property
    def _known(self) -> dict[str, tuple[object, ...]]:
        return {alphanumeric_key(name): codes for name, codes in self.codes.items()}

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with these names; raise UnsupportedComparison for an unknown name."""
        matching = [code for key in sorted(_lookup_keys(values, self.codes, self._known)) for code in self._known[key]]
        return terms(self.name, matching) if matching else MATCH_NONE

    def match_missing(self) -> Clause:
        """Match records whose code has no name."""
        return match_none(terms(self.name, [code for codes in self.codes.values() for code in codes]))


@dataclass(frozen=True)
class ConstantMatcher(EqualityMatcher):
    """The same text on all records of a resource; `names` are the valid names, empty if any text is."""

    value: str
    names: tuple[str, ...] = ()

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match all records or none; raise UnsupportedComparison for an unknown name."""
        if not self.names:
            return MATCH_ALL if self.value in values else MATCH_NONE
        keys = _lookup_keys(values, self.names, self._known)
        return MATCH_ALL if alphanumeric_key(self.value) in keys else MATCH_NONE

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(map(alphanumeric_key, self.names))


@dataclass(frozen=True)
class PresenceMatcher(EqualityMatcher):
    """A text that depends on whether a field exists: `present_value` or `absent_value`."""

    name: str
    present_value: str
    absent_value: str

    def match_values(self, values: Sequence[str]) -> Clause:
        """Match records with or without the field; raise UnsupportedComparison for any other text."""
        names: dict[str, Clause] = {
            self.present_value: {"exists": {"field": self.name}},
            self.absent_value: lacks_field(self.name),
        }
        if unknown := [value for value in values if value not in names]:
            raise UnsupportedComparison(
                f"has no value {unknown[0][:40]!r}; it is {self.present_value} or {self.absent_value}"
            )
        return match_any(*(clause for name, clause in names.items() if name in values))
