"""The map of a source: its dialect and its dictionary, from a shipped profile and a file that overrides entries of it.

A dialect is what differs between sources that implement the RESO Web API, the table [dialect] of a map. The shipped
profiles (`mappings/reso_profiles`) are maps, too; their comments describe each member. A plan joins a map with the
source and the company to replicate.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Final, Literal, get_args

import msgspec

from indexer.errors import SourceError
from indexer.reso.client.limits import SourceLimits
from indexer.reso.client.odata import string_literal
from indexer.settings import TroublePolicy
from indexer.toml_files import read_toml
from mappings.data_dictionary import MODIFICATION_TIMESTAMP, DataDictionary, load_dictionary

OWN_SET: Final = "set"
EMBEDDED: Final = "embedded"
EXPANDED: Final = "expand"
BY_KEYS: Final = "keys"
BY_TIMES: Final = "times"
BY_LINKS: Final = "links"
BY_NUMBERS: Final = "numbers"
# How a page size is requested: odata.maxpagesize in a header, or $top.
BY_PREFER: Final = "prefer"
BY_TOP: Final = "top"
SYSTEM = "{system}"

Walk = Literal["keys", "times", "links"]
Placement = Literal["set", "embedded", "expand"]


class Sign(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"among": "is"}):
    """A field and the values by which it says something; compared as texts, without case, spaces and punctuation."""

    field: str
    among: tuple[str, ...]


class ChildSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"places": "from"}):
    places: tuple[Placement, ...] = (OWN_SET, EMBEDDED, EXPANDED)
    of: tuple[str, ...] = ("Property",)  # the entities that have them as a member
    member: str = ""  # the name of that member; empty: the name of the entity
    options: bool = True  # `$expand` accepts `$select`
    top: int = 0  # `$top` within `$expand`, for sources that otherwise send the first few; 0: none
    counted_by: str = ""  # the field of the parent with the number of its children


class EntityPaging(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the pages of an entity are requested, where it differs from the others."""

    load: Walk | None = None
    changes: Literal["times", "links"] | None = None
    page_size: int | None = None


class Dialect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    profile: str = "generic"
    system: str = ""
    tested: str = ""
    load: Walk = BY_KEYS
    changes: Literal["times", "links"] = BY_TIMES
    load_path: str = ""
    load_option: str = ""
    page_size: int = 0
    size_by: tuple[Literal["prefer", "top"], ...] = (BY_PREFER, BY_TOP)
    filter: str = ""
    live: str = ""
    searchable: dict[str, tuple[str, ...]] = {}
    modified: tuple[str, ...] = (MODIFICATION_TIMESTAMP,)
    gone: Sign | None = None
    hosts: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    limits: SourceLimits = SourceLimits()
    lookups: Literal["names", "numbers"] = "names"
    children: dict[str, ChildSource] = {}
    expects: dict[str, tuple[str, ...]] = {}
    entities: dict[str, EntityPaging] = {}

    def finds_keys(self, entity: str, key: str) -> bool:
        return entity not in self.searchable or key in self.searchable[entity]

    def walk_of(self, entity: str) -> tuple[Walk, Walk]:
        own = self.entities.get(entity, EntityPaging())
        return own.load or self.load, own.changes or self.changes

    def page_size_of(self, entity: str, wanted: int) -> int:
        """Return how many records of an entity to request in a page: at most what the source sends."""
        own = self.entities.get(entity, EntityPaging())
        return min(wanted, own.page_size or self.page_size or wanted)

    @property
    def required_filter(self) -> str:
        return self.filter.replace(SYSTEM, string_literal(self.system))


STANDARD = Dialect()


Table = dict[str, Any]

GENERIC = "generic"
# The members of a map other than tables of entities.
_COMPANY, _PROFILE, _SYSTEM, _DIALECT, _POLICY = "company", "profile", "system", "dialect", "trouble_policy"
# Tables of [dialect] whose entries are tables, merged member by member.
_NESTED: dict[str, type[msgspec.Struct]] = {"children": ChildSource, "entities": EntityPaging}
_BY_ENTITY = ("searchable", "expects")


@dataclass(frozen=True)
class SourceMap:
    """What a source and its records are like: the dictionary, the dialect, and what the map declares besides."""

    dictionary: DataDictionary
    dialect: Dialect
    declared: dict[str, Any] | None = None
    policy: TroublePolicy | None = None  # for records that cannot be read


def profile_names() -> list[str]:
    return sorted(file.name.removesuffix(".toml") for file in _folder().iterdir() if file.name.endswith(".toml"))


def read_map(path: Path | None = None, profile: str = "", system: str = "") -> SourceMap:
    """Return a profile with the overrides of a map file; raise SourceError with file and entry.

    `profile` and `system` override those that the file names.
    """
    given = read_toml(path) if path else {}
    name = profile or _text(given, _PROFILE, path) or GENERIC
    system = system or _text(given, _SYSTEM, path)
    shipped = _profile(name)
    with _errors_of(path.name if path else f"--profile {name}"):
        return _merged(name, system, shipped, given)


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
    return SourceMap(dictionary, made, declared, _policy(given))


def _policy(given: Table) -> TroublePolicy | None:
    try:
        policy: TroublePolicy | None = msgspec.convert(given.get(_POLICY), TroublePolicy | None)
    except msgspec.ValidationError:
        choices = ", ".join(get_args(TroublePolicy))
        raise ValueError(f"{_POLICY}: is {given[_POLICY]!r}: give one of {choices}") from None
    return policy


def _entities(table: Table) -> Table:
    others = {_COMPANY, _PROFILE, _SYSTEM, _DIALECT, _POLICY}
    return {name: value for name, value in table.items() if name not in others}


def _override(base: Table, given: object) -> Table:
    if not isinstance(given, dict):
        raise ValueError(f"{_DIALECT}: is {given!r}, not a table")  # noqa: TRY004 - the file is invalid, not the program
    merged = {**base, **given}
    for member in (*_NESTED, *_BY_ENTITY):
        old, new = base.get(member, {}), given.get(member, {})
        if not isinstance(new, dict) or not all(isinstance(entry, dict) for entry in new.values() if member in _NESTED):
            raise ValueError(f"{_DIALECT}.{member}: is not a table of entities")
        inner = {name: {**old.get(name, {}), **entry} for name, entry in new.items()} if member in _NESTED else new
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


AUTO, BY_EVENTS, BY_TIMESTAMPS = "auto", "events", "timestamps"


@dataclass(frozen=True)
class ReplicationPlan:
    """One replication.

    `declared` is the company's own record, if the map has one. `prefix` is put before all keys of the source. With
    `is_sole`, records of the company that the source lacks are deleted from the index, whatever their origin.
    `without` are kinds of records that are not read, and whose absence is accepted (`indexer.reso.entity_forms`).
    """

    url: str
    company: str
    dictionary: DataDictionary
    declared: dict[str, Any] | None = None
    prefix: str = ""
    time_zone: str | None = None
    changes: str = AUTO
    is_sole: bool = False
    dialect: Dialect = STANDARD
    without: frozenset[str] = frozenset()
    policy: TroublePolicy | None = None

    def __post_init__(self) -> None:
        """Raise SourceError if the declared company is not the one of the plan."""
        if self.declared is not None and self.declared.get("platform_company_id") != self.company:
            raise SourceError(
                f"[company] in the map must have platform_company_id = {self.company!r}, the value of --company."
            )

    @property
    def mirror_name(self) -> str:
        """The file name of the mirror, unique per source, company and prefix."""
        digest = hashlib.sha256(f"{self.url.rstrip('/')} {self.company} {self.prefix}".encode()).hexdigest()[:12]
        return f"{self.company}-{digest}"
