"""Checks of the live index of a resource: one index, open, with the search fields of this version."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mappings.index_body import index_mapping, index_settings, mapped_names, schema_fingerprint
from mappings.resource import Resource
from mappings.search_fields import SYSTEM_FIELDS, SearchField
from mappings.shards.ranges import ShardRanges, read_ranges
from mappings.stored_document import EXACT
from service.health.checks import Finding, FindingState

Facts = Mapping[str, Any]  # aliases, mappings and flat settings of an index, as returned by Elasticsearch

_REFRESH = "index.refresh_interval"
# A setting that only closed indices have.
_CLOSED = "index.verified_before_close"


@dataclass(frozen=True)
class LiveIndex:
    """The indices behind a resource's alias; there should be exactly one."""

    resource: Resource
    alias: str
    indices: Mapping[str, Facts]

    def findings(self) -> list[Finding]:
        """Return the first fatal problem, otherwise all warnings, otherwise a finding without a problem."""
        wrong = next(self._wrong(), None)
        if wrong is not None:
            return [wrong]
        return [*self._warnings()] or [self._finding(FindingState.OK, "", f"{self._index}, {len(self._fields)} fields")]

    @property
    def _index(self) -> str:
        return next(iter(self.indices))

    @property
    def _facts(self) -> Facts:
        return self.indices[self._index]

    @property
    def _fields(self) -> Mapping[str, object]:
        fields: Mapping[str, object] = self._facts["mappings"].get("properties", {})
        return fields

    @property
    def _rebuild(self) -> str:
        return f"Rebuild it with this version: `brokerage index reindex SOURCE {self.resource.alias}`."

    def _finding(self, state: FindingState, problem: str, detail: str, remedy: str = "") -> Finding:
        return Finding(subject=self.resource.alias, state=state, problem=problem, detail=detail, remedy=remedy)

    def _wrong(self) -> Iterator[Finding]:
        yield from self._not_one()
        if _CLOSED in self._facts["settings"]:
            remedy = f"`POST {self._index}/_open` opens it."
            yield self._finding(FindingState.WRONG, "its index is closed", f"{self._index} is closed.", remedy)
        if "filter" in self._facts["aliases"][self.alias]:
            detail = f"The alias {self.alias} has a filter, which hides records."
            remedy = "Recreate the alias without it."
            yield self._finding(FindingState.WRONG, "its alias hides records", detail, remedy)
        if not self._has_valid_ranges():
            detail = f"The shards in the `_meta` of {self._index} are not valid: another program has changed them."
            yield self._finding(FindingState.WRONG, "its shards are unknown", detail, self._rebuild)
        # Every request uses these fields; the others are checked for each request that uses them.
        if lacking := sorted(self._lacking(SYSTEM_FIELDS)):
            detail = f"{self._index} lacks these fields, or maps them differently: {', '.join(lacking)}."
            yield self._finding(FindingState.WRONG, "its index lacks fields of this version", detail, self._rebuild)

    def _not_one(self) -> Iterator[Finding]:
        if not self.indices:
            remedy = f"`brokerage index reindex SOURCE {self.resource.alias}` builds it."
            detail = f"The alias {self.alias} does not exist."
            yield self._finding(FindingState.WRONG, "its alias is missing", detail, remedy)
        if len(self.indices) > 1:
            detail = f"The alias {self.alias} points to {', '.join(sorted(self.indices))}: records could appear twice."
            remedy = "`brokerage index status` shows which one is live; remove the others with `POST _aliases`."
            yield self._finding(FindingState.WRONG, "it has several indices", detail, remedy)
        if self.alias in self.indices:
            detail = f"{self.alias} is an index, not an alias: it was not created by the indexer."
            yield self._finding(FindingState.WRONG, "it is not an alias", detail, f"Delete that index. {self._rebuild}")

    def _has_valid_ranges(self) -> bool:
        try:
            return self._ranges.count > 0
        except ValueError:
            return False

    @property
    def _ranges(self) -> ShardRanges:
        return read_ranges(self._facts["mappings"].get("_meta", {}))

    def _lacking(self, declared: Iterable[SearchField]) -> Iterator[str]:
        live = self._fields
        return (field.name for field in declared if live.get(field.name) != field.mapping)

    def _warnings(self) -> Iterator[Finding]:
        fingerprint = self._facts["mappings"].get("_meta", {}).get("fingerprint")
        if missing := sorted(self._lacking(self.resource.own_fields)):
            yield self._lacks_search_fields(missing)
        elif fingerprint != schema_fingerprint(self.resource):
            yield self._finding(FindingState.WARNING, *self._difference(fingerprint), self._rebuild)
        elif altered := sorted(self._altered()):
            detail = (
                f"The mapping of {self._index} was changed by another program than the indexer: {', '.join(altered)}."
            )
            yield self._finding(FindingState.WARNING, "its mapping was changed by hand", detail, self._rebuild)
        interval = self._facts["settings"].get(_REFRESH)
        if interval in {None, "-1"}:
            value = interval or "not set, so the first search after an idle period waits for a refresh"
            detail = f"{_REFRESH} of {self._index} is {value}."
            remedy = f'`PUT {self._index}/_settings` with {{"{_REFRESH}": "1s"}} sets it.'
            yield self._finding(FindingState.WARNING, "updates may become visible late", detail, remedy)

    def _altered(self) -> Iterator[str]:
        """Yield what differs from the declared mapping, by name: fields, also those within objects, and parameters."""
        live, declared = self._facts["mappings"], index_mapping(self.resource, self._ranges)
        return _differences({**live, "_meta": None}, {**declared, "_meta": None})

    def _lacks_search_fields(self, missing: list[str]) -> Finding:
        fields = ", ".join(missing)
        detail = (
            f"{self._index} lacks these fields, or maps them differently: {fields}. Requests that use them get 503."
        )
        finding = self._finding(
            FindingState.WARNING, "its index lacks search fields of this version", detail, self._rebuild
        )
        return replace(finding, missing=frozenset(missing))

    def _difference(self, fingerprint: str | None) -> tuple[str, str]:
        """Describe how the index differs from this version's: the public problem, and the detail for operators."""
        if fingerprint is None:
            return "its index has no fingerprint", f"{self._index} was not created by the indexer."
        if settings := sorted(self._changed_settings()):
            return "its index has different settings", f"{self._index} has different settings: {', '.join(settings)}."
        if extra := sorted(self._fields.keys() - mapped_names(self.resource, self._ranges)):
            detail = f"{self._index} was built by another version, with additional search fields: {', '.join(extra)}."
            return "its index was built by another version", detail
        if self.resource.exact_names and EXACT not in self._fields:
            detail = (
                f"{self._index} was built by an earlier version, without the exact values of rounded numbers: clients "
                "with the compatible profile get whole numbers, and updates are refused."
            )
            return "its index lacks exact values", detail
        detail = f"In {self._index} only the schema of the stored records differs: responses have its fields."
        return "its records have a different schema", detail

    def _changed_settings(self) -> Iterator[str]:
        live = self._facts["settings"]
        return (name for name, value in index_settings(self._ranges).items() if live.get(name) != str(value).lower())


def _differences(live: Mapping[str, Any], declared: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the names of the members that differ between two mappings; fields are named by their path."""
    for name in sorted({*live, *declared} - {"properties"}):
        default = "object" if name == "type" else None
        if _normalized(live.get(name, default)) != _normalized(declared.get(name, default)):
            yield f"{prefix.rstrip('.')} ({name})" if prefix else name
    fields, known = live.get("properties", {}), declared.get("properties", {})
    for name in sorted({*fields, *known}):
        if name in fields and name in known:
            yield from _differences(fields[name], known[name], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _normalized(value: object) -> object:
    """Return a value as Elasticsearch returns it: booleans at the top of a mapping become text."""
    return str(value).lower() if isinstance(value, bool) else value
