"""The overrides of an MLS: merged entry by entry, with errors that name the invalid entry."""

from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import msgspec

from mappings.values.normalization import normalize_lookup

Table = dict[str, Any]

# Tables and members that cannot be overridden.
_FIXED_TABLES = {"private": "the private fields cannot be overridden"}
_FIXED_MEMBERS = {
    "aliases": "the resources of an entity cannot be overridden",
    "types": "the types are those of the Data Dictionary",
}


def _exact(name: str) -> object:
    return name


def _normalize_slashed(name: str) -> object:
    return tuple(normalize_lookup(part) for part in name.split("/"))


# Tables that are merged entry by entry, and the normal form by which two keys are the same.
_ENTRY_NORMALIZERS: dict[str, Callable[[str], object]] = {
    "fields": _exact,
    "features": _exact,
    "status": normalize_lookup,
    "type": _normalize_slashed,
}
# Where an empty string removes an entry; in `status` it means that a record is not served.
_REMOVABLE = ("fields", "features", "type")
_TYPE_NAMES = {"`": "", "object": "table", "array": "list", "str": "text", "int": "number"}


def apply_overrides(base: Table, given: Table) -> Table:
    """Return the tables of all entities with the overrides applied; raise ValueError for an invalid override."""
    _refuse_fixed("", given, _FIXED_TABLES)
    if unknown := given.keys() - base.keys():
        raise ValueError(f"{', '.join(sorted(unknown))}: is not an entity: give one of {', '.join(base)}")
    return {name: _merge_entity(name, table, given.get(name, {})) for name, table in base.items()}


def _refuse_fixed(path: str, given: Table, fixed: dict[str, str]) -> None:
    for name in fixed.keys() & given.keys():
        raise ValueError(f"{path}{name}: {fixed[name]}")


def _merge_entity(name: str, base: Table, given: object) -> Table:
    table = _require_table(name, given)
    _refuse_fixed(f"{name}.", table, _FIXED_MEMBERS)
    merged = {**base, **table}
    for member, identity in _ENTRY_NORMALIZERS.items():
        if member in merged:
            path, is_removable = f"{name}.{member}", member in _REMOVABLE
            entries = _merge_entries(path, base.get(member, {}), _require_table(path, table.get(member, {})), identity)
            merged[member] = {key: value for key, value in entries.items() if value != "" or not is_removable}
    if isinstance(table.get("also"), list):
        merged["also"] = [*base.get("also", []), *table["also"]]
    return merged


def _require_table(path: str, given: object) -> Table:
    if not isinstance(given, dict):
        raise ValueError(f"{path}: is {given!r}, not a table")  # noqa: TRY004 - the file is invalid, not the program
    return given


def _merge_entries(path: str, base: Table, given: Table, identity: Callable[[str], object]) -> Table:
    """Return the base entries with the given ones, which replace entries under another spelling too."""
    names: dict[object, str] = {}
    for name in given:
        if (other := names.setdefault(identity(name), name)) is not name:
            raise ValueError(f"{path}.{name}: is the same as {other}")
    return {name: value for name, value in base.items() if name in given or identity(name) not in names} | given


def conversion_errors(name: str, table: Table, kind: type[msgspec.Struct]) -> Iterator[str]:
    """Yield an error for each invalid entry in the table of an entity."""
    hints = get_type_hints(kind)
    for member, value in table.items():
        if member not in hints:
            yield f"{name}.{member}: is not a known member: give one of {', '.join(hints)}"
        elif member in _ENTRY_NORMALIZERS:
            for entry, item in value.items():
                yield from _entry_errors(f"{name}.{member}.{entry}", {entry: item}, hints[member])
        else:
            yield from _entry_errors(f"{name}.{member}", value, hints[member])


def _entry_errors(path: str, value: object, kind: object) -> Iterator[str]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at ")[0]
        for word, label in _TYPE_NAMES.items():
            reason = reason.replace(word, label)
        yield f"{path}: {reason[0].lower()}{reason[1:]}"
