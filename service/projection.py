"""From stored records to answered ones: variants, flags and underscored keys, by plans compiled once.

The default index variant of listings is stored as it is answered: its bytes pass through untouched.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from mappings.fields import Kind
from mappings.naming import underscore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mappings.fields import Field, View
    from mappings.resource import Resource
    from service.answer import Encoded

    Project = Callable[["Record"], "Record"]

Record = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """Which form of a resource is answered: the view, the flags that were sent, and the spelling of keys."""

    resource: Resource
    view: View
    flags: frozenset[str] = frozenset()
    underscored: bool = False

    def encode(self, records: Sequence[Encoded]) -> Sequence[Encoded]:
        """Return the encoded records in this form."""
        project = _projection(self)
        if project is None:
            return records
        return [orjson.dumps(project(orjson.loads(record))) for record in records]

    def render(self, record: Record) -> bytes:
        """Return one parsed record in this form, encoded."""
        project = _projection(self)
        return orjson.dumps(record if project is None else project(record))

    def spell(self, name: str, underscored: str) -> str:
        """Return one of two spellings of an envelope's key."""
        return underscored if self.underscored else name


@cache
def _projection(variant: Variant) -> Project | None:
    """Compile a variant; None when it is the stored form."""
    shown = [field for field in variant.resource.view(variant.view) if not _vanishes(field, variant)]
    emptied = frozenset(field.name for field in shown if _unasked(field, variant))
    if tuple(shown) == variant.resource.stored and not emptied and not variant.underscored:
        return None
    return _compile(shown, variant, emptied)


def _compile(fields: Sequence[Field], variant: Variant, emptied: frozenset[str]) -> Project:
    """Return the function that picks and spells an object's members; `emptied` are those that nobody asked for."""
    plan = [(field.name, _key(field, variant), field.empty, _nested(field, variant)) for field in fields]

    def project(record: Record) -> Record:
        return {
            key: empty if name in emptied else _value(record.get(name, empty), nested)
            for name, key, empty, nested in plan
        }

    return project


def _vanishes(field: Field, variant: Variant) -> bool:
    return field.flag is not None and field.flag.vanishes and field.flag.parameter not in variant.flags


def _unasked(field: Field, variant: Variant) -> bool:
    return field.flag is not None and variant.view in field.flag.views and field.flag.parameter not in variant.flags


def _key(field: Field, variant: Variant) -> str:
    return field.underscored if variant.underscored else field.name


def _nested(field: Field, variant: Variant) -> Project | None:
    """Compile the renaming of an object's members; they are stored as they are answered otherwise."""
    if not variant.underscored:
        return None
    if field.kind in {Kind.UNTYPED, Kind.UNTYPED_LIST}:
        return _rename_all
    return _compile(field.members, variant, frozenset()) if field.members else None


def _rename_all(value: Any) -> Any:
    """Respell every key of a value whose shape is not declared."""
    if isinstance(value, dict):
        return {underscore(key): _rename_all(inner) for key, inner in value.items()}
    return [_rename_all(element) for element in value] if isinstance(value, list) else value


def _value(value: Any, nested: Project | None) -> Any:
    if nested is None or value is None:
        return value
    return [nested(element) for element in value] if isinstance(value, list) else nested(value)


def brief_records(resource: Resource, hits: list[dict[str, Any]], *, underscored: bool) -> list[Encoded]:
    """Return the encoded `timestamps_only` records of hits that carry doc values.

    Shape: the resource's identifiers, `last_updated` (unix seconds of the filter clock), `modification_timestamp`
    (ISO 8601 of the source).
    """
    names = {name: underscore(name) if underscored else name for name in resource.timestamps}
    return [orjson.dumps(_brief(resource, names, hit["fields"])) for hit in hits]


def _brief(resource: Resource, names: dict[str, str], values: dict[str, list[Any]]) -> Record:
    identifiers = {names[name]: values.get(source, [None])[0] for name, source in resource.timestamps.items()}
    return {
        **identifiers,
        "last_updated": values["clock"][0] // 1000,
        "modification_timestamp": values.get("modified", [None])[0],
    }
