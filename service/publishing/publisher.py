"""`brokerage index publish`: writes the files of a publication, and removes old ones."""

import asyncio
import datetime as dt
import re
import secrets
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import orjson

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark
from mappings import RESOURCES
from mappings.resource import Resource
from service.app import build_services, reading_client
from service.changes.snapshot import stream_snapshot
from service.errors import ApiError, EngineUnavailable
from service.exports.operations import company_view
from service.exports.publications import (
    FORMAT_VERSION,
    LATEST_NAME,
    NDJSON_ZSTD,
    PUBLICATION,
    Manifest,
    PublishedFile,
    encode_manifest,
    manifest_name,
)
from service.exports.settings import ExportsSettings
from service.feed.entries import FeedView, mark_of_copy
from service.health.monitor import HealthMonitor
from service.publishing.files import PublicationFiles, PublishTarget, ThreadedWriter, changes_since, write_changes
from service.publishing.target import PublishError, PublishUnavailable, RunLog, UnkeptRunLog, report_target_errors
from service.scope import CompanyDirectory
from service.services import Services
from service.settings import ServiceSettings
from service.telemetry.observation import CURRENT_OBSERVATION, RequestObservation

# Files of publications, and parts of manifests; nothing else is ever deleted.
_PUBLISHED = re.compile(rf"(?P<publication>{PUBLICATION})[-.].*|{re.escape(LATEST_NAME)}(?:\.part)?")
_MANIFEST = re.compile(rf"{PUBLICATION}\.json")


class Retention(NamedTuple):
    """How long publications stay: the latest `kept`, and each for `seconds` after it was the latest."""

    kept: int
    seconds: float


def prune_publications(target: PublishTarget, folder: Path, latest: str, retention: Retention) -> None:
    """Delete earlier publications of a company's resource, and files without a manifest."""
    names = target.contents(folder)
    complete = {name.partition(".")[0]: written for name, written in names.items() if _MANIFEST.fullmatch(name)}
    # Names sort by time. The latest is last also if the clock was ahead before.
    order, now = [*sorted(complete.keys() - {latest}), latest], time.time()
    stays = {*order[-retention.kept :], latest}
    # One was listed until the next one had its manifest.
    stays |= {name for name, later in pairwise(order) if abs(now - complete[later]) < retention.seconds}
    # Manifests first: what a manifest lists exists.
    for name in sorted(names, key=lambda file: not file.endswith(".json")):
        found = _PUBLISHED.fullmatch(name)
        if found is not None and name != LATEST_NAME and found["publication"] not in stays:
            target.delete(folder / name)


def prune_companies(target: PublishTarget, companies: Collection[str]) -> None:
    """Delete the publications of companies that are not among those that exist."""
    for company in target.companies():
        if company not in companies:
            for resource in RESOURCES:
                _remove_publications(target, target.root / company / resource.alias)
            target.remove_empty(target.root / company)


def _remove_publications(target: PublishTarget, folder: Path) -> None:
    for name in sorted(target.contents(folder), key=lambda file: file != LATEST_NAME):
        if _PUBLISHED.fullmatch(name):
            target.delete(folder / name)
    target.remove_empty(folder)


_ATTEMPTS = 5
_RETRY_SECONDS = 2.0


class PublishProgress(NamedTuple):
    """How far the publication of a company's resource is: `records` of `total` are written."""

    company: str
    resource: str
    records: int
    total: int
    is_complete: bool = False
    is_unchanged: bool = False  # the files of the publication before stay


class PublishDisplay(Protocol):
    """Takes what a run reports."""

    def show(self, progress: PublishProgress) -> None:
        """Take how far a publication is."""

    def note(self, sentence: str) -> None:
        """Take a sentence for the operator."""


class _Content(NamedTuple):
    """The first and the last line of a publication's snapshot, and its files."""

    first: dict[str, Any]
    last: dict[str, Any]
    files: tuple[PublishedFile, ...]
    changes: tuple[PublishedFile, ...] | None


@dataclass(frozen=True)
class Publisher:
    """Publishes to a locked target."""

    services: Services
    target: PublishTarget
    retention: Retention
    display: PublishDisplay

    async def run(self, companies: Collection[str] = ()) -> list[Manifest]:
        """Publish the given companies, by default all; return the new manifests of this run. Raises PublishError."""
        directory = await self._directory()
        chosen = _chosen(directory, companies)
        with report_target_errors(self.target):
            log = UnkeptRunLog() if companies else await asyncio.to_thread(self.target.run_log)
        if log.done:
            self.display.note(f"Resuming a run that was stopped: {len(log.done):,} publications are complete.")
        live, aliases = self.services.engine.live, self.services.connection
        if absent := [resource.alias for resource in RESOURCES if aliases.alias(resource) in live.never_loaded]:
            self.display.note(f"Nothing was ever loaded of {', '.join(absent)}: they have no files.")
        published = [
            manifest
            for resource in RESOURCES
            for company in chosen
            if f"{company}/{resource.alias}" not in log.done
            and (manifest := await self._publish(directory, company, resource, log)) is not None
        ]
        with report_target_errors(self.target):
            if not companies:
                await asyncio.to_thread(prune_companies, self.target, {*chosen})
            await asyncio.to_thread(log.finish)
        return published

    async def _directory(self) -> CompanyDirectory:
        try:
            return await self.services.directory.get()
        except ApiError as error:
            raise PublishUnavailable(f"The companies cannot be read: {_reason(error)}") from error

    async def _publish(
        self, directory: CompanyDirectory, company: str, resource: Resource, log: RunLog
    ) -> Manifest | None:
        """Publish a company's resource, None if nothing of it was ever loaded, or nothing has changed."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                with report_target_errors(self.target):
                    manifest = await self._write(directory, company, resource)
                    await asyncio.to_thread(log.add, f"{company}/{resource.alias}")
            except ApiError as error:
                if attempt == _ATTEMPTS or not isinstance(error, EngineUnavailable):
                    raise PublishUnavailable(f"{resource.alias} of {company}: {_reason(error)}") from error
                self.display.note(f"{resource.alias} of {company}: {_reason(error)} Trying again.")
                await asyncio.sleep(_RETRY_SECONDS * attempt)
            else:
                return manifest
        return None

    async def _write(self, directory: CompanyDirectory, company: str, resource: Resource) -> Manifest | None:
        """Write the files and the manifest of one publication, then let it replace the latest one."""
        view = company_view(self.services, directory, company)
        mark = await mark_of_copy(view.call, resource)
        if mark is None:
            return None
        started = dt.datetime.now(dt.UTC)
        name = f"{started:%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}"
        previous = await self.target.publications.latest(company, resource.alias)
        first, last, written, changed = await self._write_files(view, resource, mark, name, previous)
        done = PublishProgress(company, resource.alias, last["count"], last["count"], is_complete=True)
        if previous is not None and changed == () and _contents(written) == _contents(previous.files):
            # There is nothing between its token and this one. Pruning deletes the new files.
            same = msgspec.structs.replace(previous, as_of=first["as_of"], token=first["token"])
            await asyncio.to_thread(self._make_visible, same)
            self.display.show(done._replace(is_unchanged=True))
            return None
        manifest = Manifest(
            format=FORMAT_VERSION,
            publication=name,
            company=company,
            resource=resource.alias,
            published=started.isoformat(timespec="seconds").replace("+00:00", "Z"),
            as_of=first["as_of"],
            schema=first["schema"],
            token=first["token"],
            records=last["count"],
            digest=last["digest"],
            files=written,
            previous=None if previous is None else previous.publication,
            since=None if previous is None else previous.token,
            changes=changed,
        )
        _require_whole(manifest)
        await asyncio.to_thread(self._make_visible, manifest)
        self.display.show(done)
        return manifest

    async def _write_files(
        self, view: FeedView, resource: Resource, mark: Mark, name: str, previous: Manifest | None
    ) -> _Content:
        """Write the files of a publication: all records, and the changes since the previous one."""
        folder = self.target.folder(view.call.scope.single_company or "", resource.alias)
        files = PublicationFiles(self.target, folder, name)
        changes = PublicationFiles(self.target, folder, name, are_changes=True)
        try:
            first, last = await self._write_records(view, resource, mark, files)
            written = await asyncio.to_thread(files.finish)
            request = None if previous is None else await changes_since(view, resource, previous.token, mark)
            changed = None if request is None else await write_changes(request, changes, files.size)
        finally:
            files.abandon()
            changes.abandon()
        return _Content(first, last, written, changed)

    async def _write_records(
        self, view: FeedView, resource: Resource, mark: Mark, files: PublicationFiles
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Write the lines of a snapshot; return its first and its last line, which has the count and the digest."""
        company, records = view.call.scope.single_company or "", 0
        async with (
            aclosing(stream_snapshot(view, resource, mark, None)) as lines,
            ThreadedWriter(files) as writer,
        ):
            first = page = await anext(lines)
            total = orjson.loads(first)["count"]
            async for following in lines:
                if page is not first:
                    await writer.add(page)
                    records += page.count(b"\n")
                    self.display.show(PublishProgress(company, resource.alias, records, total))
                page = following
            await writer.flush()
        return orjson.loads(first), orjson.loads(page)

    def _make_visible(self, manifest: Manifest) -> None:
        folder, text = self.target.folder(manifest.company, manifest.resource), encode_manifest(manifest)
        self.target.replace(folder / manifest_name(manifest.publication), text)
        self.target.replace(folder / LATEST_NAME, text)
        prune_publications(self.target, folder, manifest.publication, self.retention)


def _contents(files: Sequence[PublishedFile]) -> list[tuple[str, str]]:
    """Return what files hold, whatever their names: the table and the SHA-256 of each."""
    return [(file.table, file.sha256) for file in files]


def _chosen(directory: CompanyDirectory, companies: Collection[str]) -> Sequence[str]:
    if unknown := sorted(company for company in companies if directory.key(company) is None):
        raise PublishError(f"There is no company {unknown[0]!r}.")
    return sorted(directory.keys_of(companies) if companies else {*directory.keys.values()})


def _require_whole(manifest: Manifest) -> None:
    """Raise PublishError unless the files of each format have as many records as the digest covers."""
    for form in {NDJSON_ZSTD, *(file.format for file in manifest.files)}:
        own = [file for file in manifest.files if file.format == form and file.table == manifest.resource]
        if (written := sum(file.records for file in own)) != manifest.records:
            wanted = f"{written} of {manifest.records} were written as {form}."
            raise PublishError(f"{manifest.resource} of {manifest.company}: {wanted}")


def _reason(error: ApiError) -> str:
    return f"{error.reason} {error.detail}" if isinstance(error, EngineUnavailable) else error.detail


_CONNECTIONS = 8
# Of one search: no client waits for a response meanwhile.
_DEADLINE_SECONDS = 60.0


async def publish(
    connection: ConnectionSettings,
    settings: ServiceSettings,
    target: PublishTarget,
    companies: Collection[str],
    display: PublishDisplay,
) -> list[Manifest]:
    """Publish companies, all if none is given, to a target; return the manifests. Raises PublishError."""
    settings = replace(settings, deadline_seconds=_DEADLINE_SECONDS)
    async with target.locked(display.note), _services(connection, settings) as services:
        exports = settings.of(ExportsSettings)
        retention = Retention(exports.exports_kept, exports.exports_hours * 3600)
        return await Publisher(services, target, retention, display).run(companies)


@asynccontextmanager
async def _services(connection: ConnectionSettings, settings: ServiceSettings) -> AsyncIterator[Services]:
    """Open the services of a worker, and check the indices once: what is unusable is not published."""
    CURRENT_OBSERVATION.set(RequestObservation())
    async with reading_client(connection, _CONNECTIONS, settings.deadline_seconds) as client:
        services = build_services(client, settings, connection)
        marks = {index.alias: index.mark for index in services.indices.values()}
        monitor = HealthMonitor(services.engine, connection, settings, _read_nothing, marks)
        await monitor.check_now()
        yield services


async def _read_nothing() -> None:
    """Read nothing besides the checks: no request follows."""
