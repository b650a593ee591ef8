"""The outbox of a mirror: a source of envelopes, of all records for a first build, of due ones for an update.

The first `updated_at` of a record is the source's modification time. Later ones are always higher than the last one
sent, whatever the source's clock says: a removed photo or a corrected status does not change the timestamp at the
source. Versions are logged before they are sent, so a killed run sends the same versions again.
"""

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from indexer.clock import latest_microseconds, now_microseconds
from indexer.errors import InvalidRecordError
from indexer.reso.client.odata import parse_source_time
from indexer.reso.mapping.record_mapper import MappedRecord, RecordMapper
from indexer.reso.mirror import Mirror
from indexer.reso.source_map import ReplicationPlan
from indexer.source.lines import ChangeStream, LineStream, RejectedLine, SourceLine
from mappings import COMPANY, RESOURCES, Resource
from mappings.data_dictionary import MODIFICATION_TIMESTAMP

encode = msgspec.json.Encoder(order="deterministic").encode
_DIGEST_BYTES = 16


def number_lines(lines: Iterable[SourceLine | RejectedLine]) -> Iterator[SourceLine | RejectedLine]:
    """Number lines from 1, the same in every pass: an interrupted build resumes after a number."""
    for number, line in enumerate(lines, 1):
        if isinstance(line, RejectedLine):
            yield line._replace(line=line.line._replace(number=number))
        else:
            yield line._replace(number=number)


def content_digest(content: object) -> bytes:
    return hashlib.sha256(encode(content)).digest()[:_DIGEST_BYTES]


def modified_microseconds(record: dict[str, Any]) -> int:
    """Return a record's modification time in microseconds since 1970; the current time if it is missing or later."""
    written = record.get(MODIFICATION_TIMESTAMP)
    now, modified = now_microseconds(), parse_source_time(written) if isinstance(written, str) else None
    return now if modified is None else max(0, min(int(modified.timestamp() * 1_000_000), now))


def format_microseconds(microseconds: int) -> str:
    time_utc = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(microseconds=microseconds)
    return time_utc.isoformat(timespec="microseconds").replace("+00:00", "Z")


class SentVersion(NamedTuple):
    """A version of a record: `updated_at` in microseconds since 1970, and a digest, None for a deletion."""

    identifier: str
    updated_at: int
    digest: bytes | None


class SentLog:
    """The sent versions in a mirror: a new version must be newer than the last one sent."""

    def __init__(self, mirror: Mirror) -> None:
        self._connection = mirror.connection

    def last(self, alias: str, key: str) -> SentVersion | None:
        """Return the last version sent of the record with a source key, None if none was."""
        row = self._connection.execute(
            "SELECT identifier, updated_at, digest FROM told WHERE alias = ? AND key = ?", (alias, key)
        ).fetchone()
        return None if row is None else SentVersion(*row)

    def store(self, alias: str, key: str, version: SentVersion) -> None:
        """Store a version before it is sent, within the caller's transaction."""
        self._connection.execute("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?, ?)", (alias, key, *version))

    def store_indexed(self, alias: str, rows: Iterable[tuple[str, int, bool]]) -> None:
        """Store versions that the index holds: identifier, `updated_at` in microseconds, and whether it is deleted."""
        values = ((alias, *row) for row in rows)
        self._connection.executemany("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?)", values)

    def indexed_version(self, alias: str, identifier: str, *, is_live: bool = False) -> int | None:
        """Return the `updated_at` that the index held of a record, None if it had none, or none that `is_live`."""
        query = "SELECT updated_at FROM found WHERE alias = ? AND identifier = ? AND NOT (deleted AND ?)"
        row = self._connection.execute(query, (alias, identifier, is_live)).fetchone()
        return None if row is None else int(row[0])

    def count_unmatched(self) -> tuple[int, int]:
        """Return how many records of the index were never sent, and how many it held."""
        row = self._connection.execute(
            "SELECT count(*) FILTER (WHERE identifier NOT IN (SELECT identifier FROM told"
            " WHERE told.alias = found.alias)), count(*) FROM found WHERE NOT deleted"
        ).fetchone()
        return int(row[0]), int(row[1])

    def mark_unmatched_deleted(self) -> None:
        """Mark the records of the index that were never sent as deleted, within the caller's transaction."""
        self._connection.execute(
            "UPDATE found SET deleted = 1 WHERE identifier NOT IN"
            " (SELECT identifier FROM told WHERE told.alias = found.alias)"
        )

    def unmatched(self, alias: str) -> Iterator[tuple[str, int]]:
        """Yield identifier and `updated_at` of the records of the index that were never sent."""
        yield from self._connection.execute(
            "SELECT identifier, updated_at FROM found WHERE alias = ? AND NOT deleted AND identifier NOT IN"
            " (SELECT identifier FROM told WHERE told.alias = found.alias) ORDER BY identifier",
            (alias,),
        ).fetchall()


_KEYS_PER_BATCH = 500
_DEACTIVATED_AT = "deactivated_at"
# Referenced entities come first.
_ENTITY_ORDER = ("Office", "Member", "Teams", "Property")


class Outbox:
    """The envelopes of one company, made from the records of a mirror."""

    def __init__(self, mirror: Mirror, plan: ReplicationPlan, mapper: RecordMapper, future_seconds: float) -> None:
        """Count no omitted values yet; `future_seconds` is BROKERAGE_FUTURE_SECONDS."""
        self._future_seconds = future_seconds
        self._mirror, self._plan, self._mapper = mirror, plan, mapper
        self._dictionary = plan.dictionary
        self._sent_log = SentLog(mirror)
        self.is_sole = plan.is_sole  # whether records that only the index has are deleted
        self._by_alias = {resource.alias: resource for resource in RESOURCES}
        self._number = 0
        self.omitted: Counter[str] = Counter()  # values that could not be mapped, by entity and field
        self.omitted_examples: dict[str, str] = {}
        self.assumed: Counter[tuple[str, str]] = Counter()  # times of no known zone, by field and what is assumed
        self.assumed_examples: dict[tuple[str, str], str] = {}

    @property
    def companies(self) -> tuple[str, ...]:
        """The company whose records are replicated: those of others are never touched."""
        return (self._plan.company,)

    def has(self, resource: Resource) -> bool:
        """Whether the resource is mapped from an entity of the Data Dictionary, or is the declared company."""
        if resource is COMPANY:
            return self._plan.declared is not None
        return any(resource.alias in entity.aliases for entity in self._dictionary.entities.values())

    @contextmanager
    def open(self, resource: Resource) -> Iterator[LineStream]:
        lines = self._companies() if resource is COMPANY else self._all_lines(resource)
        yield LineStream(number_lines(lines), 0, int)

    def identity(self, resource: Resource) -> str:
        """Return a digest that changes with every change of the mirror or the dictionary."""
        state = f"{self._mirror.last_change} {self._dictionary.fingerprint} {self._plan.company} {resource.alias}"
        return hashlib.sha256(state.encode()).hexdigest()[:32]

    def taken_at(self, resource: Resource) -> int:  # noqa: ARG002 - the same for every resource
        """Return the current time in microseconds since 1970: a mirror is always current."""
        return now_microseconds()

    @contextmanager
    def changes(self) -> Iterator[ChangeStream]:
        yield ChangeStream(self._due_changes(), 0, int)

    @property
    def has_unqueued_changes(self) -> bool:
        """Whether there are changes other than due records: to the company, or records that only the index has."""
        sent, declared = self._sent_log.last(COMPANY.alias, self._plan.company), self._plan.declared
        is_new = declared is not None and (sent is None or sent.digest != content_digest({"record": declared}))
        return is_new or (self.is_sole and any(True for _ in self._unmatched_deletions()))

    def mark_published(self) -> None:
        """Record that unmatched records of the index were deleted, within the caller's transaction."""
        if self.is_sole:
            self._sent_log.mark_unmatched_deleted()

    def _companies(self) -> Iterator[SourceLine]:
        if (declared := self._plan.declared) is not None:
            with self._mirror.transaction():
                version = self._next_version(COMPANY, self._plan.company, declared, {"record": declared})
            yield self._line("company", {"updated_at": format_microseconds(version.updated_at), "record": declared})

    def _all_lines(self, resource: Resource) -> Iterator[SourceLine | RejectedLine]:
        entity, after = self._dictionary.entity_for(resource.alias), ""
        while keys := self._mirror.keys(entity, after, _KEYS_PER_BATCH):
            with self._mirror.transaction():
                lines = [line for key in keys for line in self._lines(resource, entity, key)]
            yield from lines
            after = keys[-1]

    def _due_changes(self) -> Iterator[tuple[Resource, SourceLine] | RejectedLine]:
        yield from ((COMPANY, line) for line in self._companies())
        for entity in _ENTITY_ORDER:
            after = ""
            while keys := self._mirror.due_keys(entity, after, _KEYS_PER_BATCH):
                with self._mirror.transaction():
                    lines = [line for key in keys for line in self._due_lines(entity, key)]
                yield from lines
                after = keys[-1]
        if self.is_sole:
            yield from self._unmatched_deletions()

    def _due_lines(self, entity: str, key: str) -> Iterator[tuple[Resource, SourceLine] | RejectedLine]:
        for alias in self._dictionary.entities[entity].aliases:
            resource = self._by_alias[alias]
            for line in self._lines(resource, entity, key):
                yield line if isinstance(line, RejectedLine) else (resource, line)

    def _lines(self, resource: Resource, entity: str, key: str) -> Iterator[SourceLine | RejectedLine]:
        """Yield the envelope of a record as one resource, if there is one to send."""
        try:
            mapped = self._mapper.map_record(resource.alias, key)
        except InvalidRecordError as error:
            if not self._is_reported(resource, entity, key):
                record = self._mirror.record(entity, key) or {}
                yield RejectedLine(self._line(entity, record), error, resource, self._unreadable(resource, key, record))
            return
        if mapped is not None:
            self._count_omitted(entity, key, mapped)
            source = self._mirror.record(entity, key) or {}
            content = {"record": mapped.record, "envelope": mapped.envelope}
            version = self._next_version(resource, key, source, content)
            own = self._with_credible_times(mapped.envelope, version.updated_at)
            yield self._line(entity, self._envelope(version.updated_at, mapped.record) | own)
        elif sent := self._sent_log.last(resource.alias, key) or self._indexed_before(resource, entity, key):
            yield self._deletion(resource, key, sent)

    def _unreadable(self, resource: Resource, key: str, source: dict[str, Any]) -> frozenset[str] | None:
        """Return the identifier of a record that cannot be mapped, so that its next readable state is a later one."""
        try:
            identifier = self._mapper.identifier(resource.alias, key)
        except InvalidRecordError:
            return None
        sent = self._sent_log.last(resource.alias, key)
        if previous := sent.updated_at if sent else self._sent_log.indexed_version(resource.alias, identifier):
            version = SentVersion(identifier, self._after(previous, modified_microseconds(source)), b"")
            self._sent_log.store(resource.alias, key, version)
        return frozenset({identifier})

    def _is_reported(self, resource: Resource, entity: str, key: str) -> bool:
        """Whether an earlier resource of the same entity already rejected this record: it is reported once."""
        for alias in takewhile(lambda alias: alias != resource.alias, self._dictionary.entities[entity].aliases):
            try:
                self._mapper.map_record(alias, key)
            except InvalidRecordError:
                return True
        return False

    def _indexed_before(self, resource: Resource, entity: str, key: str) -> SentVersion | None:
        """Return the version that the index had before the mirror, of a record that is not served as this resource."""
        if self._mirror.record(entity, key) is None:  # only parts of it may be in the mirror
            return None
        try:
            identifier = self._mapper.identifier(resource.alias, key)
        except InvalidRecordError:
            return None
        updated_at = self._sent_log.indexed_version(resource.alias, identifier, is_live=True)
        return None if updated_at is None else SentVersion(identifier, updated_at, b"")

    def _next_version(
        self, resource: Resource, key: str, source: dict[str, Any], content: dict[str, Any]
    ) -> SentVersion:
        """Return the last version sent if the content is unchanged, else a newer one."""
        digest = content_digest(content)
        sent = self._sent_log.last(resource.alias, key)
        if sent is not None and sent.digest == digest and self._is_credible(sent.updated_at):
            return sent
        identifier = str(content["record"][resource.identifier])
        previous = sent.updated_at if sent else self._sent_log.indexed_version(resource.alias, identifier)
        version = SentVersion(identifier, self._after(previous or 0, modified_microseconds(source)), digest)
        self._sent_log.store(resource.alias, key, version)
        return version

    def _after(self, previous: int, modified: int) -> int:
        """Return the version of a change after `previous`, in microseconds; one from the future does not count."""
        return max(previous + 1, modified) if self._is_credible(previous) else modified

    def _with_credible_times(self, envelope: dict[str, Any], updated_at: int) -> dict[str, Any]:
        """Return an envelope without a deactivation from the future: a deactivated record was changed since."""
        since = parse_source_time(str(envelope.get(_DEACTIVATED_AT, "")))
        if since is None or self._is_credible(int(since.timestamp() * 1_000_000)):
            return envelope
        return envelope | {_DEACTIVATED_AT: format_microseconds(updated_at)}

    def _is_credible(self, version: int) -> bool:
        """Whether the indexer accepts a version: an earlier run may have had a clock that was ahead."""
        return version <= latest_microseconds(self._future_seconds)

    def _deletion(self, resource: Resource, key: str, sent: SentVersion) -> SourceLine:
        if sent.digest is not None or not self._is_credible(sent.updated_at):
            sent = SentVersion(sent.identifier, self._after(sent.updated_at, now_microseconds()), None)
            self._sent_log.store(resource.alias, key, sent)
        return self._line(resource.alias, self._deletion_envelope(resource, sent.identifier, sent.updated_at))

    def _unmatched_deletions(self) -> Iterator[tuple[Resource, SourceLine]]:
        for resource in RESOURCES:
            for identifier, previous in self._sent_log.unmatched(resource.alias) if self.has(resource) else ():
                updated_at = self._after(previous, now_microseconds())
                yield resource, self._line(resource.alias, self._deletion_envelope(resource, identifier, updated_at))

    def _deletion_envelope(self, resource: Resource, identifier: str, updated_at: int) -> dict[str, Any]:
        return self._envelope(updated_at, {resource.identifier: identifier}) | {"deleted": True}

    def _envelope(self, updated_at: int, record: dict[str, Any]) -> dict[str, Any]:
        return {
            "platform_company_id": self._plan.company,
            "updated_at": format_microseconds(updated_at),
            "record": record,
        }

    def _line(self, file: str, content: object) -> SourceLine:
        self._number += 1
        return SourceLine(file, self._number, encode(content), policy=self._plan.policy)

    def _count_omitted(self, entity: str, key: str, mapped: MappedRecord) -> None:
        for field, reason in mapped.omitted:
            name = field if "." in field else f"{entity}.{field}"
            self.omitted[name] += 1
            self.omitted_examples.setdefault(name, f"{key!r} {reason}")
        for field, assumption, given in mapped.assumed:
            kind = (field if "." in field else f"{entity}.{field}", assumption)
            self.assumed[kind] += 1
            self.assumed_examples.setdefault(kind, f"{key!r} is {given}")
