"""Checks of Elasticsearch and of each index behind an alias.

They require `view_index_metadata` on the indices, and `monitor` on the cluster for versions and health. Without a
privilege the state of the finding is `unknown`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import Any, Protocol

import msgspec

from cluster.connection import ConnectionSettings, unsupported_versions
from cluster.control_index import Mark, StandingTroubles, index_identity, is_another, mark_id, troubles_id
from cluster.terminal import counted
from mappings import RESOURCES
from mappings.indices import index_mapping, index_settings, mapped_names, schema_fingerprint
from mappings.resource import Resource
from mappings.search_fields import SYSTEM_FIELDS, SearchField
from mappings.shards import ShardRanges, read_ranges
from mappings.stored_document import EXACT
from service.errors import ApiError, DeadlineExceeded, EngineUnavailable, NotLoaded, ResourceUnavailable
from service.search.cached_value import CachedValue
from service.search.query import MissingFields

# For a single request of a check.
_REQUEST_TIMEOUT_SECONDS = 2.0
# Nodes that do not respond within the timeout are omitted.
_NODES_PATH = "/_nodes/_all/_none?timeout=1s&filter_path=nodes.*.name,nodes.*.version,nodes.*.roles"
CLUSTER_HEALTH_PATH = "/_cluster/health?timeout=1s&master_timeout=1s&filter_path=status,number_of_data_nodes"

ENGINE_SUBJECT, CLUSTER_SUBJECT, KEYS_SUBJECT, CONTROL_SUBJECT = "elasticsearch", "cluster", "keys", "control"
CLUSTER_SUBJECTS = (ENGINE_SUBJECT, CLUSTER_SUBJECT)


class FindingState(StrEnum):
    OK = "ok"
    UNKNOWN = "unknown"  # a privilege is missing, or there was no response in time
    ABSENT = "absent"  # nothing was ever loaded: requests find nothing, or get 503 if that is so of every resource
    WARNING = "warning"
    WRONG = "wrong"  # requests that depend on it get 503


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check.

    `problem` is public: it contains no index, node, version or address. `detail` and `remedy` are for operators.
    """

    subject: str
    state: FindingState = FindingState.OK
    problem: str = ""
    detail: str = ""
    remedy: str = ""
    is_replaced: bool = False  # the data are not those of the mark: the change feed is refused
    missing: frozenset[str] = frozenset()  # search fields that the live index lacks: requests that use them are refused

    @property
    def is_fatal(self) -> bool:
        """Whether a starting replica cannot become ready, and requests for the subject are refused."""
        return self.state is FindingState.WRONG

    @property
    def sentence(self) -> str:
        return " ".join(part for part in (f"{self.subject}: {self.problem}.", self.detail, self.remedy) if part)


def unknown(subject: str, problem: str, detail: str = "", remedy: str = "") -> Finding:
    return Finding(subject=subject, state=FindingState.UNKNOWN, problem=problem, detail=detail, remedy=remedy)


def warning(subject: str, problem: str, detail: str = "", remedy: str = "") -> Finding:
    return Finding(subject=subject, state=FindingState.WARNING, problem=problem, detail=detail, remedy=remedy)


def wrong(subject: str, problem: str, detail: str = "", remedy: str = "") -> Finding:
    return Finding(subject=subject, state=FindingState.WRONG, problem=problem, detail=detail, remedy=remedy)


class StatusReader(Protocol):
    """The part of `service.search.engine.SearchEngine` that checks use."""

    async def get_json(self, target: str) -> tuple[int, Any]:
        """Send a GET; return the status (200, 401, 403 or 404) and the parsed body. Raises ApiError."""


async def get_within_timeout(engine: StatusReader, target: str) -> tuple[int, Any]:
    """Send a GET with a timeout of two seconds; raise ApiError."""
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT_SECONDS):
            return await engine.get_json(target)
    except TimeoutError:
        raise DeadlineExceeded from None


async def cluster_findings(engine: StatusReader) -> list[Finding]:
    """Check versions and health of the cluster; failed checks are `unknown`."""
    return [
        await run_check(ENGINE_SUBJECT, partial(_versions, engine)),
        await run_check(CLUSTER_SUBJECT, partial(_health, engine)),
    ]


async def run_check(subject: str, check: Callable[[], Awaitable[Finding]]) -> Finding:
    """Return the finding of a check, or one with state `unknown` if it fails."""
    try:
        return await check()
    except ApiError as failure:
        reason = str(getattr(failure, "reason", failure.detail))
        return unknown(subject, "could not be checked in time", reason)


def missing_privilege(subject: str, privilege: str) -> Finding:
    """Return the finding that a privilege is missing, such as `monitor` on the cluster."""
    remedy = f"Grant the service's user {privilege}."
    return unknown(subject, "cannot be checked without a privilege", remedy=remedy)


async def _versions(engine: StatusReader) -> Finding:
    status, body = await get_within_timeout(engine, _NODES_PATH)
    if status != 200:
        return missing_privilege(ENGINE_SUBJECT, "`monitor` on the cluster")
    nodes = list(body["nodes"].values())
    if unsupported := unsupported_versions(nodes):
        remedy = "All requests are refused until every node has a supported version."
        return wrong(ENGINE_SUBJECT, "unsupported version", " ".join(unsupported), remedy)
    count = counted(len(nodes), "node")
    return Finding(subject=ENGINE_SUBJECT, detail=f"{count}, {', '.join(sorted({n['version'] for n in nodes}))}")


async def _health(engine: StatusReader) -> Finding:
    status, body = await get_within_timeout(engine, CLUSTER_HEALTH_PATH)
    if status != 200:
        return missing_privilege(CLUSTER_SUBJECT, "`monitor` on the cluster")
    if body["status"] == "green":
        return Finding(subject=CLUSTER_SUBJECT, detail="green")
    is_red = body["status"] == "red"
    detail = "A primary shard is unassigned: its index cannot be read." if is_red else "A replica is unassigned."
    remedy = "`GET _cluster/allocation/explain` says why."
    return warning(CLUSTER_SUBJECT, f"status {body['status']}", detail, remedy)


def refusals(findings: Iterable[Finding], connection: ConnectionSettings) -> dict[str, Callable[[], ApiError]]:
    """Return what makes the error, by alias, of the resources whose requests are refused because of these findings."""
    refused = {finding.subject for finding in findings if finding.is_fatal}
    is_loaded = never_loaded(findings, connection) < {*map(connection.alias, RESOURCES)}
    return {
        connection.alias(resource): partial(ResourceUnavailable, resource.title) if is_loaded else NotLoaded
        for resource in RESOURCES
        if not is_loaded or resource.alias in refused or ENGINE_SUBJECT in refused
    }


def never_loaded(findings: Iterable[Finding], connection: ConnectionSettings) -> frozenset[str]:
    """Return the aliases of the resources that were never loaded."""
    absent = {finding.subject for finding in findings if finding.state is FindingState.ABSENT}
    return frozenset(connection.alias(resource) for resource in RESOURCES if resource.alias in absent)


def missing_fields(findings: Iterable[Finding], connection: ConnectionSettings) -> dict[str, MissingFields]:
    """Return, by alias, the search fields that live indices lack."""
    missing = {finding.subject: finding.missing for finding in findings if finding.missing}
    return {
        connection.alias(resource): MissingFields(resource.alias, missing[resource.alias])
        for resource in RESOURCES
        if resource.alias in missing
    }


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
        fatal = next(self._wrong(), None)
        if fatal is not None:
            return [fatal]
        detail = f"{self._index}, {counted(len(self._fields), 'field')}"
        return [*self._warnings()] or [Finding(subject=self.resource.alias, detail=detail)]

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

    def _wrong(self) -> Iterator[Finding]:
        yield from self._not_one()
        if _CLOSED in self._facts["settings"]:
            remedy = f"`POST {self._index}/_open` opens it."
            yield wrong(self.resource.alias, "its index is closed", f"{self._index} is closed.", remedy)
        if "filter" in self._facts["aliases"][self.alias]:
            detail = f"The alias {self.alias} has a filter, which hides records."
            remedy = "Recreate the alias without it."
            yield wrong(self.resource.alias, "its alias hides records", detail, remedy)
        if not self._has_valid_ranges():
            detail = f"The shards in the `_meta` of {self._index} are not valid: another program has changed them."
            yield wrong(self.resource.alias, "its shards are unknown", detail, self._rebuild)
        # Every request uses these fields; the others are checked for each request that uses them.
        if lacking := sorted(self._lacking(SYSTEM_FIELDS)):
            detail = f"{self._index} lacks these fields, or maps them differently: {', '.join(lacking)}."
            yield wrong(self.resource.alias, "its index lacks fields of this version", detail, self._rebuild)

    def _not_one(self) -> Iterator[Finding]:
        if not self.indices:
            remedy = f"`brokerage index reindex SOURCE {self.resource.alias}` builds it."
            detail = f"The alias {self.alias} does not exist."
            yield wrong(self.resource.alias, "its alias is missing", detail, remedy)
        if len(self.indices) > 1:
            detail = f"The alias {self.alias} points to {', '.join(sorted(self.indices))}: records could appear twice."
            remedy = "`brokerage index status` shows which one is live; remove the others with `POST _aliases`."
            yield wrong(self.resource.alias, "it has several indices", detail, remedy)
        if self.alias in self.indices:
            detail = f"{self.alias} is an index, not an alias: it was not created by the indexer."
            yield wrong(self.resource.alias, "it is not an alias", detail, f"Delete that index. {self._rebuild}")

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
            yield warning(self.resource.alias, *self._difference(fingerprint), self._rebuild)
        elif altered := sorted(self._altered()):
            detail = (
                f"The mapping of {self._index} was changed by another program than the indexer: {', '.join(altered)}."
            )
            yield warning(self.resource.alias, "its mapping was changed by hand", detail, self._rebuild)
        interval = self._facts["settings"].get(_REFRESH)
        if interval in {None, "-1"}:
            value = interval or "not set, so the first search after an idle period waits for a refresh"
            detail = f"{_REFRESH} of {self._index} is {value}."
            remedy = f'`PUT {self._index}/_settings` with {{"{_REFRESH}": "1s"}} sets it.'
            yield warning(self.resource.alias, "updates may become visible late", detail, remedy)

    def _altered(self) -> Iterator[str]:
        """Yield what differs from the declared mapping, by name: fields, also those within objects, and parameters."""
        live, declared = self._facts["mappings"], index_mapping(self.resource, self._ranges)
        return _differences({**live, "_meta": None}, {**declared, "_meta": None})

    def _lacks_search_fields(self, missing: list[str]) -> Finding:
        fields = ", ".join(missing)
        detail = (
            f"{self._index} lacks these fields, or maps them differently: {fields}. Requests that use them get 503."
        )
        problem = "its index lacks search fields of this version"
        finding = warning(self.resource.alias, problem, detail, self._rebuild)
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


async def read_marks(engine: StatusReader, connection: ConnectionSettings) -> dict[str, Mark]:
    """Return the marks by alias; raise ApiError. A mark that is missing or not readable is omitted.

    Read them before the indices are listed: an index that is swapped in meanwhile names the one that it succeeds.
    """
    stored = await _control_documents(engine, connection, mark_id)
    return {alias: mark for alias, document in stored.items() if (mark := _mark(document)) is not None}


async def read_standing(engine: StatusReader, connection: ConnectionSettings) -> dict[str, StandingTroubles]:
    """Return how many records are not as their source says, by alias, where there were any; raise ApiError."""
    stored = await _control_documents(engine, connection, troubles_id)
    return {alias: msgspec.convert(document, StandingTroubles) for alias, document in stored.items()}


async def _control_documents(
    engine: StatusReader, connection: ConnectionSettings, name_of: Callable[[str], str]
) -> dict[str, Any]:
    """Return the contents of each alias's document in the control index, where there is one; raise ApiError."""
    aliases = [*map(connection.alias, RESOURCES)]
    paths = (f"/{connection.control_index}/_doc/{name_of(alias)}" for alias in aliases)
    responses = await asyncio.gather(*(get_within_timeout(engine, path) for path in paths))
    return {alias: body["_source"] for alias, (status, body) in zip(aliases, responses, strict=True) if status == 200}


def _mark(document: Mapping[str, Any]) -> Mark | None:
    try:
        return msgspec.convert(document, Mark)
    except msgspec.ValidationError:
        return None


def replacement(mark: Mark, index: str, facts: Facts, control: Facts) -> str | None:
    """Return a sentence for operators if an index, or the control index, is not the one that a mark describes."""
    if is_another(mark.control, index_identity(control["settings"])):
        return "The control index was restored or replaced since the last run."
    succeeds = facts["mappings"].get("_meta", {}).get("succeeds")
    if is_another(mark.index, index_identity(facts["settings"])) and succeeds != mark.index:
        return f"{index} was restored or replaced since the last run, which published {mark.generation}."
    return None


def replaced_finding(resource: Resource, detail: str) -> Finding:
    """Return the finding: records are served, changes, snapshots and digests are refused."""
    problem = "its data were restored or replaced, so changes are refused"
    remedy = "`brokerage index restored` lets consumers start again from what is there."
    return replace(warning(resource.alias, problem, detail, remedy), is_replaced=True)


def replaced_aliases(findings: Iterable[Finding], connection: ConnectionSettings) -> frozenset[str]:
    subjects = {finding.subject for finding in findings if finding.is_replaced}
    return frozenset(connection.alias(resource) for resource in RESOURCES if resource.alias in subjects)


CachedMarks = Mapping[str, CachedValue[Mark | None]]
# By requested name: the indices behind it, or None without the privilege to read them.
IndicesByName = Mapping[str, Mapping[str, Any] | None]

_PRIVILEGE = "`view_index_metadata` on the aliases, `api_keys` and `control`"


@dataclass(frozen=True)
class IndexInventory:
    """The indices that the service reads, with their aliases, mappings and settings."""

    by_name: IndicesByName
    never_built: frozenset[str] = frozenset()  # aliases that are missing because nothing was ever loaded for them
    marks: Mapping[str, Mark] = field(default_factory=dict)  # by alias

    def replacement(self, alias: str, control_index: str) -> str | None:
        """Return a sentence if the data behind an alias, or the control index, were replaced; None if not."""
        mark, live = self.marks.get(alias), self.by_name[alias] or {}
        control = (self.by_name[control_index] or {}).get(control_index)
        if mark is None or control is None or len(live) != 1:
            return None
        return replacement(mark, *next(iter(live.items())), control)


async def run_checks(
    engine: StatusReader,
    connection: ConnectionSettings,
    marks: CachedMarks | None = None,
    on_inventory: Callable[[IndexInventory], None] | None = None,
) -> list[Finding]:
    """Return the findings of all checks of the core; raise ApiError if Elasticsearch is unavailable.

    `marks` are those that the service has cached, by alias; without them they are read. `on_inventory` gets the indices
    that were read.
    """
    cluster = await cluster_findings(engine)
    # Read last: checks of the cluster may take seconds, in which an index is loaded or replaced.
    if marks is None:
        known = await read_marks(engine, connection)
        indices = replace(await read_inventory(engine, connection), marks=known)
    else:
        indices = await _with_marks(engine, connection, marks)
    if on_inventory is not None:
        on_inventory(indices)
    return [*cluster, *index_findings(indices, connection)]


async def _with_marks(engine: StatusReader, connection: ConnectionSettings, marks: CachedMarks) -> IndexInventory:
    """Return the inventory, read after the marks: a cached one may be that of an index that was replaced since."""
    inventory = replace(await read_inventory(engine, connection), marks=_current(marks))
    suspected = [alias for alias in marks if inventory.replacement(alias, connection.control_index)]
    if not suspected:
        return inventory
    await asyncio.gather(*(marks[alias].refresh() for alias in suspected))
    known = _current(marks)
    return replace(await read_inventory(engine, connection), marks=known)


def _current(marks: CachedMarks) -> dict[str, Mark]:
    cached = {alias: mark.current for alias, mark in marks.items()}
    return {alias: mark for alias, mark in cached.items() if mark is not None}


async def read_inventory(engine: StatusReader, connection: ConnectionSettings) -> IndexInventory:
    """Read the metadata of all indices that the service uses; raise ApiError if Elasticsearch is unavailable."""
    aliases = [*map(connection.alias, RESOURCES)]
    names = [*aliases, connection.keys_index, connection.control_index]
    status, body = await _get(engine, ",".join(names))
    if status == 200:
        return IndexInventory({name: _indices_behind(name, body) for name in names})
    if status == 401:
        raise EngineUnavailable("Elasticsearch rejected the credentials.")
    # One of them is missing or not readable: find out which. A first build publishes its mark after its alias is there.
    # Without the control index nobody knows what was loaded; without any index of a resource, nothing was.
    are_marks_kept = (await _get(engine, connection.control_index))[0] == 200
    without_mark = await _without_mark(engine, connection, aliases)
    responses = await asyncio.gather(*(_get(engine, name) for name in names))
    by_name = {
        name: body if status == 200 else {} if status == 404 else None
        for name, (status, body) in zip(names, responses, strict=True)
    }
    missing = frozenset(alias for alias in without_mark if by_name[alias] == {})
    return IndexInventory(by_name, missing if are_marks_kept or len(missing) == len(aliases) else frozenset())


async def _without_mark(engine: StatusReader, connection: ConnectionSettings, aliases: Sequence[str]) -> list[str]:
    """Return the aliases for which the indexer has never published a watermark."""
    marks = (f"/{connection.control_index}/_doc/{mark_id(alias)}?_source=false" for alias in aliases)
    responses = await asyncio.gather(*(get_within_timeout(engine, mark) for mark in marks))
    return [alias for alias, (status, _) in zip(aliases, responses, strict=True) if status == 404]


async def _get(engine: StatusReader, names: str) -> tuple[int, Any]:
    return await get_within_timeout(engine, f"/{names}?flat_settings=true")


def _indices_behind(name: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    indices = {index: facts for index, facts in body.items() if index == name or name in facts["aliases"]}
    if not indices:
        # Elasticsearch returns 404 for a missing name, so this response came from something else.
        raise ValueError(f"The response lacks {name}.")
    return indices


def index_findings(indices: IndexInventory, connection: ConnectionSettings) -> Iterator[Finding]:
    for resource in RESOURCES:
        alias = connection.alias(resource)
        live = indices.by_name[alias]
        if live is None:
            yield missing_privilege(resource.alias, _PRIVILEGE)
        elif alias in indices.never_built:
            yield Finding(
                subject=resource.alias,
                state=FindingState.ABSENT,
                problem="nothing has been loaded yet",
                detail=f"The alias {alias} has never existed.",
                remedy=f"`brokerage index reindex SOURCE {resource.alias}` builds it.",
            )
        else:
            yield from LiveIndex(resource, alias, live).findings()
            if (detail := indices.replacement(alias, connection.control_index)) is not None:
                yield replaced_finding(resource, detail)
    creates_key = "`brokerage keys create` creates the first one."
    no_keys = warning(KEYS_SUBJECT, "no keys have been created yet", remedy=creates_key)
    yield _support_index(indices.by_name[connection.keys_index], connection.keys_index, no_keys)
    if indices.never_built.issuperset(map(connection.alias, RESOURCES)):
        loads = "`brokerage index reindex SOURCE` loads the first data."
        yield wrong(CONTROL_SUBJECT, "nothing has been loaded yet", remedy=loads)
    else:
        builds = "`brokerage index reindex SOURCE` creates it."
        no_marks = wrong(CONTROL_SUBJECT, "the indexer's watermarks are missing", remedy=builds)
        yield _support_index(indices.by_name[connection.control_index], connection.control_index, no_marks)


def _support_index(indices: Mapping[str, Any] | None, index: str, missing: Finding) -> Finding:
    """Return the finding for the index of keys or watermarks; `missing` if it does not exist."""
    if indices is None:
        return missing_privilege(missing.subject, _PRIVILEGE)
    if not indices:
        return replace(missing, detail=f"The index {index} does not exist.")
    return Finding(subject=missing.subject, detail=f"{index} exists")
