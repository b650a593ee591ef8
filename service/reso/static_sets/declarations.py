"""`Lookup` and `Field`: the values of lookups and the fields of the other entity sets, from their declarations."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

from mappings.data_dictionary.model import MODIFICATION_TIMESTAMP
from service.reso.entity_sets.edm_types import EdmType
from service.reso.entity_sets.entity_set import EntityProperty, EntitySet
from service.reso.entity_sets.value_converters import to_timestamp
from service.reso.static_sets.static_set import StaticRow, StaticSet

_LOOKUP = ("LookupKey", "LookupName", "LookupValue", "StandardLookupValue", "LegacyODataValue", MODIFICATION_TIMESTAMP)
_FIELD = ("FieldKey", "ResourceName", "FieldName", "DisplayName", MODIFICATION_TIMESTAMP)
# Before a word: after a small letter or a digit, and before the last of several capitals.
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PUNCTUATION = re.compile(r"[^A-Za-z0-9]")


def static_sets(described: Mapping[str, EntitySet]) -> dict[str, StaticSet]:
    """Return the entity sets that describe some others."""
    made = (
        _static_set("Lookup", _LOOKUP, described, _lookups, "The values of properties that have a fixed set of them."),
        _static_set("Field", _FIELD, described, _fields, "The properties of the entity sets above."),
    )
    return {each.name: each for each in made}


def _static_set(
    name: str,
    names: tuple[str, ...],
    described: Mapping[str, EntitySet],
    rows: Callable[[Mapping[str, EntitySet]], Iterator[StaticRow]],
    description: str,
) -> StaticSet:
    key = names[0]
    properties = {
        each: EntityProperty(
            each, EdmType.DATE_TIME if each == MODIFICATION_TIMESTAMP else EdmType.STRING, {}, is_key=each == key
        )
        for each in names
    }
    build = cache(partial(_sorted, key, described, rows))
    return StaticSet(name, key, (), properties, build, description)


def _sorted(
    key: str, described: Mapping[str, EntitySet], rows: Callable[[Mapping[str, EntitySet]], Iterator[StaticRow]]
) -> tuple[StaticRow, ...]:
    return tuple(sorted(rows(described), key=lambda row: row.values[key]))


def _lookups(described: Mapping[str, EntitySet]) -> Iterator[StaticRow]:
    """Yield each value of each lookup once: properties of the same name have the same lookup."""
    values: dict[str, dict[str, None]] = {}
    groups: dict[str, set[str]] = {}
    for declared in _properties(described):
        if declared.lookup:
            values.setdefault(declared.name, {}).update(dict.fromkeys(declared.lookup))
            groups.setdefault(declared.name, set()).update(_groups(declared))
    for name, of_name in values.items():
        for value in of_name:
            legacy = _PUNCTUATION.sub("", value)
            row = (f"{name}!{legacy}", name, value, value, legacy, _declared_at())
            yield StaticRow(dict(zip(_LOOKUP, row, strict=True)), frozenset(groups[name]))


def _fields(described: Mapping[str, EntitySet]) -> Iterator[StaticRow]:
    for resource, entity_set in described.items():
        for name, declared in entity_set.properties.items():
            row = (f"{resource}!{name}", resource, name, _WORD_START.sub(" ", name), _declared_at())
            yield StaticRow(dict(zip(_FIELD, row, strict=True)), _groups(declared))


def _properties(described: Mapping[str, EntitySet]) -> Iterable[EntityProperty]:
    return (declared for entity_set in described.values() for declared in entity_set.properties.values())


def _groups(declared: EntityProperty) -> frozenset[str]:
    return frozenset(column.group for column in declared.columns.values())


@cache
def _declared_at() -> str:
    """Return when the declarations of this version were written, the same in all processes of an installation."""
    folders = (Path(str(files(package))) for package in ("mappings", "service.reso"))
    newest = max(path.stat().st_mtime for folder in folders for path in folder.rglob("*") if path.suffix != ".pyc")
    return str(to_timestamp(int(newest) * 1000))
