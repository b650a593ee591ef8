"""Whether the live index of a resource is one to answer from: one, open, and with every field that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mappings.index import fingerprint, settings
from service.soundness import Finding, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mappings.resource import Resource

    Facts = Mapping[str, Any]  # aliases, mappings and flat settings of an index, as Elasticsearch gives them

_REFRESH = "index.refresh_interval"
# What a closed index has among its settings.
_CLOSED = "index.verified_before_close"


@dataclass(frozen=True)
class LiveIndex:
    """What answers under a resource's alias, by the name of the index."""

    resource: Resource
    alias: str
    found: Mapping[str, Facts]

    def findings(self) -> list[Finding]:
        """Return the first thing that is wrong, else every warning, else that all is well."""
        wrong = next(self._wrong(), None)
        if wrong is not None:
            return [wrong]
        return [*self._warnings()] or [self._finding(State.OK, "", f"{self._index}, {len(self._fields)} fields")]

    @property
    def _index(self) -> str:
        return next(iter(self.found))

    @property
    def _facts(self) -> Facts:
        return self.found[self._index]

    @property
    def _fields(self) -> Mapping[str, object]:
        fields: Mapping[str, object] = self._facts["mappings"].get("properties", {})
        return fields

    @property
    def _rebuild(self) -> str:
        return f"Rebuild it with this version: `brokerage index reindex SOURCE {self.resource.alias}`."

    def _finding(self, state: State, problem: str, detail: str, remedy: str = "") -> Finding:
        return Finding(subject=self.resource.alias, state=state, problem=problem, detail=detail, remedy=remedy)

    def _wrong(self) -> Iterator[Finding]:
        yield from self._not_one()
        if _CLOSED in self._facts["settings"]:
            remedy = f"`POST {self._index}/_open` opens it."
            yield self._finding(State.WRONG, "its index is closed", f"{self._index} is closed.", remedy)
        if "filter" in self._facts["aliases"][self.alias]:
            detail = f"The alias {self.alias} has a filter: records would be missing."
            yield self._finding(State.WRONG, "its alias hides records", detail, "Make the alias anew without it.")
        if lacking := sorted(self._lacking()):
            detail = f"{self._index} lacks, or has otherwise: {', '.join(lacking)}."
            yield self._finding(State.WRONG, "its index lacks fields of this version", detail, self._rebuild)

    def _not_one(self) -> Iterator[Finding]:
        if not self.found:
            remedy = f"`brokerage index reindex SOURCE {self.resource.alias}` builds it."
            yield self._finding(State.WRONG, "it is not there", f"There is no alias {self.alias}.", remedy)
        if len(self.found) > 1:
            detail = f"The alias {self.alias} points at {', '.join(sorted(self.found))}: records could come twice."
            remedy = "`POST _aliases` with `remove` leaves it one index, `brokerage index status` tells them apart."
            yield self._finding(State.WRONG, "it has several indices", detail, remedy)
        if self.alias in self.found:
            detail = f"{self.alias} is an index, not an alias: something else than the indexer made it."
            yield self._finding(State.WRONG, "it is no alias", detail, f"Delete that index. {self._rebuild}")

    def _lacking(self) -> Iterator[str]:
        live = self._fields
        return (field.name for field in self.resource.search if live.get(field.name) != field.mapping)

    def _warnings(self) -> Iterator[Finding]:
        shape = self._facts["mappings"].get("_meta", {}).get("fingerprint")
        if shape != fingerprint(self.resource):
            yield self._finding(State.WARNING, *self._difference(shape), self._rebuild)
        interval = self._facts["settings"].get(_REFRESH)
        if interval in {None, "-1"}:
            detail = (
                f"{_REFRESH} of {self._index} is {interval or 'not set: after an idle time the first search waits'}."
            )
            remedy = f'`PUT {self._index}/_settings` with {{"{_REFRESH}": "1s"}} sets it.'
            yield self._finding(State.WARNING, "updates may become visible late", detail, remedy)

    def _difference(self, shape: str | None) -> tuple[str, str]:
        """Return in what the index is unlike this version's, for anybody and for operators."""
        if shape is None:
            return "its index does not say its shape", f"{self._index} was not made by the indexer."
        if unlike := sorted(self._unlike()):
            return "its index has other settings", f"{self._index} has other settings: {', '.join(unlike)}."
        if further := sorted(self._fields.keys() - {field.name for field in self.resource.search} - {"record"}):
            detail = f"{self._index} is of another version, which has further search fields: {', '.join(further)}."
            return "its index is of another version", detail
        detail = f"In {self._index} only the shape of the stored records differs: answers have that one's members."
        return "its records have another shape", detail

    def _unlike(self) -> Iterator[str]:
        live = self._facts["settings"]
        return (name for name, value in settings().items() if live.get(name) != str(value).lower())
