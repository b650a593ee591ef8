"""The map of a source: a shipped profile, and a file that overrides single entries of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from indexer.errors import SourceError
from indexer.reso.dialects.dialect import SYSTEM, ChildSource, Dialect, EntityPaging, Sign
from mappings.data_dictionary.loader import load_dictionary
from mappings.data_dictionary.model import DataDictionary

Table = dict[str, Any]

GENERIC = "generic"
# The members of a map other than tables of entities.
_COMPANY, _PROFILE, _SYSTEM, _DIALECT = "company", "profile", "system", "dialect"
# Tables of [dialect] whose entries are tables, merged member by member.
_NESTED: dict[str, type[msgspec.Struct]] = {"children": ChildSource, "entities": EntityPaging}
_BY_ENTITY = ("searchable", "expects")


@dataclass(frozen=True)
class SourceMap:
    """What a source and its records are like: the dictionary, the dialect, and the company if the map declares it."""

    dictionary: DataDictionary
    dialect: Dialect
    declared: dict[str, Any] | None = None


def profile_names() -> list[str]:
    """Return the names of the shipped profiles."""
    return sorted(each.name.removesuffix(".toml") for each in _folder().iterdir() if each.name.endswith(".toml"))


def read_map(path: Path | None = None, profile: str = "", system: str = "") -> SourceMap:
    """Return a profile with the overrides of a map file; raise SourceError with file and entry.

    `profile` and `system` override those that the file names.
    """
    with _errors_of(path.name if path else ""):
        given = _read_file(path) if path else {}
    name = profile or _text(given, _PROFILE, path) or GENERIC
    system = system or _text(given, _SYSTEM, path)
    shipped = _profile(name)
    with _errors_of(path.name if path else f"--profile {name}"):
        return _merged(name, system, shipped, given)


def _read_file(path: Path) -> Table:
    try:
        return dict(msgspec.toml.decode(path.read_bytes()))
    except OSError as error:
        raise SourceError(f"{path} cannot be opened: {error.strerror}.") from error


@contextmanager
def _errors_of(file: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, msgspec.MsgspecError) as error:
        raise SourceError(f"{file}: {error}.") from error


def _text(given: Table, member: str, path: Path | None) -> str:
    value = given.get(member, "")
    if not isinstance(value, str) and path is not None:
        raise SourceError(f"{path.name}: {member}: is {value!r}, not a text.")
    return str(value)


def _folder() -> Any:
    return files("mappings").joinpath("reso_profiles")


def _profile(name: str) -> Table:
    if name not in profile_names():
        raise SourceError(f"{name!r} is not a profile: give one of {', '.join(profile_names())}.")
    return dict(msgspec.toml.decode(_folder().joinpath(f"{name}.toml").read_bytes()))


def _merged(name: str, system: str, shipped: Table, given: Table) -> SourceMap:
    tables = [_profile(GENERIC), shipped, given] if name != GENERIC else [shipped, given]
    dialect: Table = {}
    for table in tables:
        dialect = _override(dialect, table.get(_DIALECT, {}))
    declared = msgspec.convert(given.get(_COMPANY), dict[str, Any] | None)
    dictionary = load_dictionary(*(msgspec.toml.encode(_entities(table)) for table in tables))
    made = _convert(dialect | {_PROFILE: name, _SYSTEM: system})
    _check(made, dictionary)
    return SourceMap(dictionary, made, declared)


def _entities(table: Table) -> Table:
    return {name: value for name, value in table.items() if name not in {_COMPANY, _PROFILE, _SYSTEM, _DIALECT}}


def _override(base: Table, given: object) -> Table:
    if not isinstance(given, dict):
        raise ValueError(f"{_DIALECT}: is {given!r}, not a table")  # noqa: TRY004 - the file is invalid, not the program
    merged = {**base, **given}
    for member in (*_NESTED, *_BY_ENTITY):
        old, new = base.get(member, {}), given.get(member, {})
        if not isinstance(new, dict) or not all(isinstance(each, dict) for each in new.values() if member in _NESTED):
            raise ValueError(f"{_DIALECT}.{member}: is not a table of entities")
        inner = {name: {**old.get(name, {}), **each} for name, each in new.items()} if member in _NESTED else new
        merged[member] = {**old, **inner}
    if isinstance(limits := given.get("limits", {}), dict):
        merged["limits"] = {**base.get("limits", {}), **limits}
    return merged


def _convert(table: Table) -> Dialect:
    kinds: dict[str, type[msgspec.Struct]] = {}
    try:
        for member, kind in _NESTED.items():
            for name, entry in table.get(member, {}).items():
                kinds = {f"{_DIALECT}.{member}.{name}": kind}
                msgspec.convert(entry, kind)
        kinds = {f"{_DIALECT}.gone": Sign}
        msgspec.convert(table.get("gone"), Sign | None)
        kinds = {_DIALECT: Dialect}
        return msgspec.convert(table, Dialect)
    except msgspec.ValidationError as error:
        [(place, kind)] = kinds.items()
        raise ValueError(_explained(place, kind, str(error))) from None


def _explained(place: str, kind: type[msgspec.Struct], reason: str) -> str:
    """Return an error of a table with the name of the member: `dialect.load: invalid enum value 'key'`."""
    text, _, where = reason.partition(" - at ")
    member = where.strip("`").removeprefix("$")
    known = ", ".join(kind.__struct_encode_fields__)
    hint = f": give one of {known}" if "unknown field" in text else ""
    return f"{place}{member}: {text[0].lower()}{text[1:]}{hint}"


def _check(dialect: Dialect, dictionary: DataDictionary) -> None:
    """Raise ValueError for what contradicts itself, or names an entity that does not exist."""
    for member in (*_NESTED, *_BY_ENTITY):
        if unknown := getattr(dialect, member).keys() - dictionary.entities.keys():
            raise ValueError(
                f"{_DIALECT}.{member}.{min(unknown)}: is not an entity: give one of {', '.join(dictionary.entities)}"
            )
    if SYSTEM in dialect.filter and not dialect.system:
        raise ValueError(
            f"the profile {dialect.profile} needs the OriginatingSystemName of the MLS: give --system NAME, or "
            f'system = "NAME" in the map'
        )
    for name, entity in dictionary.entities.items():
        load, changes = dialect.walk_of(name)
        if not dialect.finds_keys(name, entity.key) and "links" not in {load} & {changes}:
            raise ValueError(
                f"{_DIALECT}.searchable.{name}: lacks {entity.key}, so {name} can only be read with "
                'load = "links" and changes = "links"'
            )
    _check_private(dialect, dictionary)


def _check_private(dialect: Dialect, dictionary: DataDictionary) -> None:
    private = {name.casefold() for name in dictionary.private}
    texts = {"filter": dialect.filter, "live": dialect.live, "gone.field": dialect.gone.field if dialect.gone else ""}
    texts |= {"modified": " ".join(dialect.modified)}
    for member, text in texts.items():
        if words := {word for word in text.replace("(", " ").replace(")", " ").split() if word.casefold() in private}:
            raise ValueError(f"{_DIALECT}.{member}: {min(words)} is private and is never requested")
