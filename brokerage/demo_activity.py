"""What goes on in the demo beside its requests: files are published once, and prices of listings change."""

import asyncio
import datetime as dt
import logging
import random
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from cluster.connection import ConnectionSettings, connect
from indexer import IndexerContext, IndexerSettings, open_source, update
from mappings.listing import ON_MARKET_STATUSES
from sample import write_source
from service.exports.settings import ExportsSettings
from service.publishing.files import open_target
from service.publishing.publisher import PublishProgress, publish
from service.settings import ServiceSettings

CHANGE_SECONDS = 5.0
_MAX_STEP = 0.02  # of a price
_RECENT = dt.timedelta(days=6)
_LINES = "listings.ndjson"
_log = logging.getLogger("brokerage.demo")


@contextmanager
def activity(connection: ConnectionSettings, settings: ServiceSettings, listings: int, company: str) -> Iterator[None]:
    """Publish files of a company, then change the price of one of its listings every few seconds, in a thread."""
    stopped = threading.Event()
    thread = threading.Thread(target=_run, args=(connection, settings, listings, company, stopped))
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def _run(
    connection: ConnectionSettings, settings: ServiceSettings, listings: int, company: str, stopped: threading.Event
) -> None:
    try:
        asyncio.run(_publish(connection, settings, company))
        lines = _lines_on_market(listings, company)
        with tempfile.TemporaryDirectory(prefix="brokerage-demo-") as folder:
            while lines and not stopped.wait(CHANGE_SECONDS):
                asyncio.run(_change_price(connection, Path(folder), random.choice(lines)))  # noqa: S311 - no secret
    except Exception:
        _log.exception("The data of the demo stays as it is from now on.")


async def _publish(connection: ConnectionSettings, settings: ServiceSettings, company: str) -> None:
    await publish(connection, settings, open_target(settings.of(ExportsSettings).exports), (company,), _NoDisplay())


class _NoDisplay:
    def show(self, progress: PublishProgress) -> None:
        """Show nothing."""

    def note(self, sentence: str) -> None:
        _log.info(sentence)


def _lines_on_market(listings: int, company: str) -> list[dict[str, Any]]:
    """Return the source lines of a company's listings on the market.

    Where there are any, those of the last days: a change must not add a listing to the window that pages have.
    """
    with tempfile.TemporaryDirectory(prefix="brokerage-demo-") as folder:
        sample = write_source(Path(folder) / "sample", listings).directory
        lines = [orjson.loads(line) for line in (sample / _LINES).read_bytes().splitlines()]
    on_market = [
        line
        for line in lines
        if line["platform_company_id"] == company and line["record"]["Status"] in ON_MARKET_STATUSES
    ]
    since = dt.datetime.now(dt.UTC) - _RECENT
    return [line for line in on_market if dt.datetime.fromisoformat(line["updated_at"]) > since] or on_market


async def _change_price(connection: ConnectionSettings, folder: Path, line: dict[str, Any]) -> None:
    record = line["record"]
    record["ListPrice"] = round(record["ListPrice"] * (1 + random.uniform(-_MAX_STEP, _MAX_STEP)), -2)  # noqa: S311
    line["updated_at"] = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    (folder / _LINES).write_bytes(orjson.dumps(line) + b"\n")
    async with connect(connection, connections=2, timeout=60) as client:
        with open_source(str(folder)) as source:
            await update(IndexerContext(client, connection, IndexerSettings()), source)
