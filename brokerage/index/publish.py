"""`brokerage index publish`: write files of whole companies, for consumers who copy everything."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import orjson
import rich_click as click

from brokerage.command_runs import exit_on_error
from brokerage.help import epilog
from brokerage.index.runner import JSON_OPTION, print_note
from brokerage_feed.tables import Spelling
from brokerage_feed.terminal import ExitCode, cancel_on_signal, echo, exit_on_signal, fail
from cluster.connection import ConnectionSettings
from cluster.settings import load_settings
from cluster.terminal import counted
from service.exports.object_store import QUICK, is_store_url, open_store
from service.exports.publications import Manifest
from service.exports.settings import ExportsSettings, ParquetNames
from service.publishing.files import open_target
from service.publishing.publisher import PublishProgress
from service.publishing.publisher import publish as publish_files
from service.publishing.target import OpenTables, PublishError, PublishLocked, PublishUnavailable
from service.settings import ServiceSettings

_INTERVAL_SECONDS = 5.0
_WITHOUT_PARQUET = (
    "Parquet needs pyarrow, which is not installed: only JSON is written. Run pip install pyarrow, "
    "or set BROKERAGE_EXPORTS_PARQUET=none."
)
_STOPPED = "Stopped: what is complete is published, and the same command resumes."


class _Display:
    """Writes JSON lines, or lines of text: one at the end of each publication, and every five seconds within."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._written = time.monotonic()

    def show(self, progress: PublishProgress) -> None:
        """Write how far a publication is, if it is complete or the interval has passed."""
        now = time.monotonic()
        if not progress.is_complete and now - self._written < _INTERVAL_SECONDS:
            return
        self._written = now
        if self._as_json:
            echo(orjson.dumps({"event": "progress", **progress._asdict()}))
        elif progress.is_unchanged:
            kept = counted(progress.records, "record")
            echo(f"{progress.company}: {progress.resource} unchanged, {kept}: its files stay.")
        elif progress.is_complete:
            echo(f"{progress.company}: {progress.resource} published, {counted(progress.records, 'record')}.")
        else:
            echo(
                f"{progress.company}: {progress.resource}, {progress.records:,} of {counted(progress.total, 'record')}."
            )

    def note(self, sentence: str) -> None:
        print_note(sentence, as_json=self._as_json)

    def finish(self, published: Sequence[Manifest]) -> None:
        files = [file for manifest in published for file in manifest.files]
        records, size = sum(manifest.records for manifest in published), sum(file.bytes for file in files)
        totals = {"publications": len(published), "files": len(files), "records": records, "bytes": size}
        if self._as_json:
            echo(orjson.dumps({"event": "summary", "exit_code": 0, **totals}))
        else:
            echo(f"Published {counted(records, 'record')} in {len(files):,} files, {size / 1e6:,.1f} MB.")


class _Target(click.Path):
    """A folder, or the URL of an object store that can be opened."""

    def __init__(self) -> None:
        super().__init__(file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text; fail for a file, or a URL that cannot be used."""
        if not is_store_url(value):
            return super().convert(value, param, ctx)
        try:
            open_store(value, QUICK)
        except ValueError as error:
            self.fail(f"{value} {error}", param, ctx)
        return value


@click.command(
    epilog=epilog(
        "brokerage index publish",
        "brokerage index publish /var/lib/brokerage/exports --company acme",
        "brokerage index publish s3://exports/brokerage",
        exits="0 success, 1 target unusable or no such company, 2 usage or settings error, 3 Elasticsearch or the "
        "object store unavailable, 4 another publication is running, 130 SIGINT, 143 SIGTERM",
    )
)
@click.argument("target", required=False, type=_Target(), metavar="[TARGET]")
@click.option(
    "--company",
    "companies",
    multiple=True,
    metavar="C",
    help="A company to publish, by key or numeric id; repeatable. Default: all.",
)
@JSON_OPTION
def publish(*, target: str | None, companies: tuple[str, ...], as_json: bool) -> None:
    """Write files of each company and resource to TARGET, a folder or an object store, by default BROKERAGE_EXPORTS.

    The files hold what a snapshot has that a key without restrictions takes, with the token to read changes from and
    the digest. If BROKERAGE_EXPORTS names the folder, the service sends them; if it names the object store, as
    s3://bucket/prefix, gs://bucket/prefix or az://container/prefix, the service redirects to them. Each publication
    replaces the one before once it is whole; BROKERAGE_EXPORTS_KEPT of them stay, and each for BROKERAGE_EXPORTS_HOURS.
    If nothing has changed, the files stay as they are. Next to the JSON there are typed tables in Parquet, see
    BROKERAGE_EXPORTS_PARQUET. A run that is stopped resumes. Updates, rebuilds and readers may run at the same time.
    """
    run_publication(target, companies, as_json=as_json)


def configured_publication(companies: tuple[str, ...], *, as_json: bool) -> Callable[[], None]:
    """Return what publishes companies to the configured place; raise UsageError if there is none."""
    require_place()
    return partial(run_publication, None, companies, as_json=as_json)


def run_publication(target: str | None, companies: tuple[str, ...], *, as_json: bool) -> None:
    """Publish companies, by default all, to a target, by default the configured one; on failure, exit with its code."""
    display = _Display(as_json=as_json)
    with exit_on_error(), _exit_on_publish_error(), exit_on_signal(_STOPPED):
        files = load_settings(ExportsSettings, os.environ)
        settings = replace(load_settings(ServiceSettings, os.environ), of_capabilities=(files,))
        connection = load_settings(ConnectionSettings, os.environ)
        place = target or require_place()
        display.finish(asyncio.run(_run(connection, settings, place, companies, display)))


def require_place() -> str:
    """Return the configured folder or object store; raise UsageError if there is none."""
    if place := load_settings(ExportsSettings, os.environ).exports:
        return place
    raise click.UsageError("Specify TARGET or set BROKERAGE_EXPORTS: there is nothing to publish to.")


async def _run(
    connection: ConnectionSettings,
    settings: ServiceSettings,
    place: str,
    companies: tuple[str, ...],
    display: _Display,
) -> Sequence[Manifest]:
    with cancel_on_signal():
        target = open_target(place, _typed_tables(settings.of(ExportsSettings).exports_parquet, display))
        return await publish_files(connection, settings, target, companies, display)


def _typed_tables(names: ParquetNames, display: _Display) -> OpenTables | None:
    """Return what opens Parquet files, None if they are not wanted or their library is missing."""
    if names is ParquetNames.NONE:
        return None
    if find_spec("pyarrow") is None:
        display.note(_WITHOUT_PARQUET)
        return None
    # Imported lazily, since its package is an optional dependency.
    from brokerage_feed.parquet_tables import ParquetTables  # noqa: PLC0415

    return lambda resource, create: ParquetTables(resource, Spelling(names), create)


@contextmanager
def _exit_on_publish_error() -> Iterator[None]:
    try:
        yield
    except PublishLocked as error:
        fail(str(error), ExitCode.LOCKED)
    except PublishUnavailable as error:
        fail(str(error), ExitCode.UNAVAILABLE)
    except PublishError as error:
        fail(str(error))
