"""A map of an MLS over the dictionary: entry by entry, and what is wrong with an entry in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from mappings.spelling import bare

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Table = dict[str, Any]

# What is not for a map to say: what is private, and what a record of the source becomes.
_FIXED = {"private": "what is private is not for a map to say"}
_FIXED_OF_ENTITY = {"aliases": "what the records become is not for a map to say"}


def _exactly(name: str) -> object:
    return name


def _slashed(name: str) -> object:
    return tuple(bare(part) for part in name.split("/"))


# What is replaced entry by entry, and by what two entries are known to be one.
_ENTRIES: dict[str, Callable[[str], object]] = {
    "fields": _exactly,
    "features": _exactly,
    "status": bare,
    "type": _slashed,
}
# Where an empty text takes an entry away; in a status it means that a record is not served.
_REMOVABLE = ("fields", "features", "type")
_WORDS = {"`": "", "object": "table", "array": "list", "str": "text", "int": "number"}


def over(base: Table, given: Table) -> Table:
    """Return the tables of all entities with what a map says in place of them; raise ValueError for what it may not."""
    _refuse("", given, _FIXED)
    if unknown := given.keys() - base.keys():
        raise ValueError(f"{', '.join(sorted(unknown))}: is nothing that is read: give one of {', '.join(base)}")
    return {name: _entity_over(name, table, given.get(name, {})) for name, table in base.items()}


def _refuse(place: str, given: Table, fixed: dict[str, str]) -> None:
    for name in fixed.keys() & given.keys():
        raise ValueError(f"{place}{name}: {fixed[name]}")


def _entity_over(name: str, base: Table, given: object) -> Table:
    table = _table(name, given)
    _refuse(f"{name}.", table, _FIXED_OF_ENTITY)
    merged = {**base, **table}
    for member, identity in _ENTRIES.items():
        if member in merged:
            place, is_removable = f"{name}.{member}", member in _REMOVABLE
            entries = _merged(place, base.get(member, {}), _table(place, table.get(member, {})), identity)
            merged[member] = {key: value for key, value in entries.items() if value != "" or not is_removable}
    if isinstance(table.get("also"), list):
        merged["also"] = [*base.get("also", []), *table["also"]]
    return merged


def _table(place: str, given: object) -> Table:
    if not isinstance(given, dict):
        raise ValueError(f"{place}: is {given!r}, not a table")  # noqa: TRY004 - the text is at fault, not the program
    return given


def _merged(place: str, base: Table, given: Table, identity: Callable[[str], object]) -> Table:
    """Return the base without what is given under another spelling, and with what is given."""
    said: dict[object, str] = {}
    for name in given:
        if (other := said.setdefault(identity(name), name)) is not name:
            raise ValueError(f"{place}.{name}: is the same as {other}")
    return {name: value for name, value in base.items() if name in given or identity(name) not in said} | given


def faults(name: str, table: Table, kind: type[msgspec.Struct]) -> Iterator[str]:
    """Yield what is wrong with the table of an entity, each with the entry at fault."""
    hints = get_type_hints(kind)
    for member, value in table.items():
        if member not in hints:
            yield f"{name}.{member}: is nothing that is read: give one of {', '.join(hints)}"
        elif member in _ENTRIES:
            for entry, one in value.items():
                yield from _fault(f"{name}.{member}.{entry}", {entry: one}, hints[member])
        else:
            yield from _fault(f"{name}.{member}", value, hints[member])


def _fault(place: str, value: object, kind: object) -> Iterator[str]:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        reason = str(error).partition(" - at ")[0]
        for word, ours in _WORDS.items():
            reason = reason.replace(word, ours)
        yield f"{place}: {reason[0].lower()}{reason[1:]}"
