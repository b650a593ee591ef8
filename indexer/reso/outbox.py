"""A mirror as a source of envelopes: everything for a first build, what is due for an update.

A record's `updated_at` is the source's time of change when it is first told. After that it lies above what was told
before, whatever the source's clock says: a photo that goes, or a status that is corrected, moves no time at the source.
What is told is kept before it goes out, so that a run that was killed says the same again and never less.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from indexer.errors import ItemError
from indexer.reso.envelopes import as_of, digest, encode, numbered, written
from indexer.reso.told import Tellings, Told
from indexer.source import Fault, Feed, Line, Reading
from mappings import COMPANY, RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from indexer.reso.composing import Composed, Composer
    from indexer.reso.mirror import Mirror
    from indexer.reso.plan import Plan
    from mappings import Resource

_TOGETHER = 500
# What others refer to comes first.
_ORDER = ("Office", "Member", "Teams", "Property")


class Outbox:
    """The envelopes of one company that a mirror holds."""

    def __init__(self, mirror: Mirror, plan: Plan, composer: Composer) -> None:
        """Say nothing yet."""
        self._mirror, self._plan, self._composer = mirror, plan, composer
        self._dictionary = plan.dictionary
        self._told = Tellings(mirror)
        self.is_sole = plan.is_sole  # whether what only the index has is deleted
        self._by_alias = {resource.alias: resource for resource in RESOURCES}
        self._number = 0
        self.left_out: Counter[str] = Counter()  # values that could not be kept, by entity and field
        self.examples: dict[str, str] = {}

    def has(self, resource: Resource) -> bool:
        """Whether the resource is made of an entity of the Data Dictionary, or is the declared company."""
        if resource is COMPANY:
            return self._plan.declared is not None
        return any(resource.alias in entity.aliases for entity in self._dictionary.entities.values())

    @contextmanager
    def open(self, resource: Resource) -> Iterator[Reading]:
        """Open everything that is known of a resource."""
        lines = self._companies() if resource is COMPANY else self._everything(resource)
        yield Reading(numbered(lines), 0, int)

    def identity(self, resource: Resource) -> str:
        """Return what changes with anything that is known."""
        known = f"{self._mirror.changes} {self._dictionary.fingerprint} {self._plan.company} {resource.alias}"
        return hashlib.sha256(known.encode()).hexdigest()[:32]

    def taken_at(self, resource: Resource) -> int:  # noqa: ARG002 - the same for all
        """Return the time: a mirror is as of now."""
        return time.time_ns() // 1000

    @contextmanager
    def changes(self) -> Iterator[Feed]:
        """Open what is due."""
        yield Feed(self._due(), 0, int)

    @property
    def has_more(self) -> bool:
        """Whether there is something to tell beside what is due: the company, or what only the index has."""
        told, declared = self._told.last(COMPANY.alias, self._plan.company), self._plan.declared
        is_new = declared is not None and (told is None or told.digest != digest({"record": declared}))
        return is_new or (self.is_sole and any(True for _ in self._left_over()))

    def settled(self) -> None:
        """Take what only the index had as deleted, within a transaction of the caller's."""
        if self.is_sole:
            self._told.close_left_over()

    def _companies(self) -> Iterator[Line]:
        if (declared := self._plan.declared) is not None:
            with self._mirror.transaction():
                told = self._told_now(COMPANY, self._plan.company, declared, {"record": declared})
            yield self._line("company", {"updated_at": written(told.updated_at), "record": declared})

    def _everything(self, resource: Resource) -> Iterator[Line | Fault]:
        entity, after = self._dictionary.entity_of(resource.alias), ""
        while keys := self._mirror.keys(entity, after, _TOGETHER):
            with self._mirror.transaction():
                lines = [line for key in keys for line in self._lines(resource, entity, key)]
            yield from lines
            after = keys[-1]

    def _due(self) -> Iterator[tuple[Resource, Line] | Fault]:
        yield from ((COMPANY, line) for line in self._companies())
        for entity in _ORDER:
            after = ""
            while keys := self._mirror.due(entity, after, _TOGETHER):
                with self._mirror.transaction():
                    told = [each for key in keys for each in self._due_lines(entity, key)]
                yield from told
                after = keys[-1]
        if self.is_sole:
            yield from self._left_over()

    def _due_lines(self, entity: str, key: str) -> Iterator[tuple[Resource, Line] | Fault]:
        for alias in self._dictionary.entities[entity].aliases:
            resource = self._by_alias[alias]
            for line in self._lines(resource, entity, key):
                yield line if isinstance(line, Fault) else (resource, line)

    def _lines(self, resource: Resource, entity: str, key: str) -> Iterator[Line | Fault]:
        """Yield what is to be said of one record under one alias: at most one line."""
        try:
            composed = self._composer.compose(resource.alias, key)
        except ItemError as error:
            if not self._is_told_already(resource, entity, key):
                yield Fault(self._line(entity, self._mirror.record(entity, key)), error, resource)
            return
        if composed is not None:
            self._note_left_out(entity, key, composed)
            source = self._mirror.record(entity, key) or {}
            content = {"record": composed.record, "envelope": composed.envelope}
            told = self._told_now(resource, key, source, content)
            yield self._line(entity, self._envelope(told.updated_at, composed.record) | composed.envelope)
        elif (told_before := self._told.last(resource.alias, key) or self._found(resource, entity, key)) is not None:
            yield self._deletion(resource, key, told_before)

    def _is_told_already(self, resource: Resource, entity: str, key: str) -> bool:
        """Whether an alias before this one complains of the same record: it is told once."""
        for alias in takewhile(lambda alias: alias != resource.alias, self._dictionary.entities[entity].aliases):
            try:
                self._composer.compose(alias, key)
            except ItemError:
                return True
        return False

    def _found(self, resource: Resource, entity: str, key: str) -> Told | None:
        """Return what the index had before the mirror of what the source has, but not as this resource."""
        if self._mirror.record(entity, key) is None:  # only a part of it may be known
            return None
        try:
            identifier = self._composer.identifier(resource.alias, key)
        except ItemError:
            return None
        before = self._told.found_live(resource.alias, identifier)
        return None if before is None else Told(identifier, before, b"")

    def _told_now(self, resource: Resource, key: str, source: dict[str, Any], content: dict[str, Any]) -> Told:
        """Return what is said of a record: the same as before, or something newer."""
        now_told = digest(content)
        told = self._told.last(resource.alias, key)
        if told is not None and told.digest == now_told:
            return told
        identifier = str(content["record"][resource.identifier])
        before = told.updated_at if told else self._told.found(resource.alias, identifier)
        told = Told(identifier, max(before + 1, as_of(source)), now_told)
        self._told.keep(resource.alias, key, told)
        return told

    def _deletion(self, resource: Resource, key: str, told: Told) -> Line:
        if told.digest is not None:
            told = Told(told.identifier, max(told.updated_at + 1, time.time_ns() // 1000), None)
            self._told.keep(resource.alias, key, told)
        return self._line(resource.alias, self._gone(resource, told.identifier, told.updated_at))

    def _left_over(self) -> Iterator[tuple[Resource, Line]]:
        for resource in RESOURCES:
            for identifier, before in self._told.left_over(resource.alias) if self.has(resource) else ():
                now = max(before + 1, time.time_ns() // 1000)
                yield resource, self._line(resource.alias, self._gone(resource, identifier, now))

    def _gone(self, resource: Resource, identifier: str, updated_at: int) -> dict[str, Any]:
        return self._envelope(updated_at, {resource.identifier: identifier}) | {"deleted": True}

    def _envelope(self, updated_at: int, record: dict[str, Any]) -> dict[str, Any]:
        return {"platform_company_id": self._plan.company, "updated_at": written(updated_at), "record": record}

    def _line(self, file: str, content: object) -> Line:
        self._number += 1
        return Line(file, self._number, encode(content))

    def _note_left_out(self, entity: str, key: str, composed: Composed) -> None:
        for field, reason in composed.left_out:
            name = field if "." in field else f"{entity}.{field}"
            self.left_out[name] += 1
            self.examples.setdefault(name, f"of {key!r} {reason}")
