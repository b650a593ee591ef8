"""What a dialect makes of a record when it is stored: its keys, its system, its deletion mark."""

from __future__ import annotations

import dataclasses
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tests.reso.server.schema import BOOLEAN, INT64, STRING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.reso.server.dialect import Dialect
    from tests.reso.server.schema import EntityType, Record

_SYSTEM_FIELD = "OriginatingSystemName"
# The source system's own key is not one of this service.
_NOT_KEYS = frozenset({"SourceSystemKey"})
_FIRST_NUMBER = 1_000_003
# Numbers do not ascend with time, like those of merged systems; a prime keeps them distinct.
_STEP, _MODULUS = 7_368_787, 2_147_483_647
_NO_ALPHANUMERICS = re.compile(r"[^A-Za-z0-9]+")


def is_key(field: str) -> bool:
    """Return whether a field holds a key, of its own record or of another."""
    return field.endswith("Key") and field not in _NOT_KEYS


def shaped_entity(entity: EntityType, dialect: Dialect) -> EntityType:
    """Return an entity type with the fields and key types of a dialect."""
    fields = {
        name: INT64 if dialect.keys == "number" and is_key(name) else kind for name, kind in entity.fields.items()
    }
    if dialect.system:
        fields[_SYSTEM_FIELD] = STRING
    if dialect.deletion_mark:
        fields[dialect.deletion_mark] = BOOLEAN
    for child in dialect.embedded.get(entity.name, ()):
        fields[child] = f"Collection(org.reso.metadata.{child})"
    return dataclasses.replace(entity, fields=MappingProxyType(fields))


class RecordForm:
    """Shapes records; the same text key always becomes the same key."""

    def __init__(self, dialect: Dialect) -> None:
        """Begin without numbers."""
        self._dialect = dialect
        self._numbers: dict[str, int] = {}

    def key(self, key: Any) -> Any:
        """Return a key as the dialect writes it; a key that has this form already stays."""
        if not isinstance(key, str) or self._dialect.keys == "text":
            return key
        if self._dialect.keys == "number":
            return self._numbers.setdefault(key, (_FIRST_NUMBER + len(self._numbers) * _STEP) % _MODULUS)
        prefix = self._dialect.prefix
        return key if key.startswith(prefix) else prefix + (_NO_ALPHANUMERICS.sub("", key) or key.encode().hex())

    def shaped(self, record: Mapping[str, Any]) -> Record:
        """Return a record that is to be stored."""
        shaped = {name: self.key(value) if is_key(name) else value for name, value in record.items()}
        if self._dialect.keys == "prefixed":
            shaped |= {name: self.key(value) for name, value in shaped.items() if name.endswith("MlsId")}
        if self._dialect.system:
            shaped[_SYSTEM_FIELD] = self._dialect.system
        if self._dialect.deletion_mark:
            shaped[self._dialect.deletion_mark] = True
        return shaped

    def is_deleted(self, record: Mapping[str, Any]) -> bool:
        """Return whether a stored record is marked as deleted."""
        return bool(self._dialect.deletion_mark) and record.get(self._dialect.deletion_mark) is False
