"""`brokerage audit`: which keys were sent a record, and what the audit does not know."""

import datetime as dt
import itertools
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import orjson
import rich_click as click
from elasticsearch import AsyncElasticsearch, NotFoundError

from brokerage.command_runs import exit_on_error, run_with_client
from brokerage.help import QUERY_EXITS, epilog
from brokerage.key_tables import key_state
from brokerage.tables import Column, may_style, table_lines, terminal_width
from brokerage_feed.terminal import ExitCode, echo, fail
from cluster.connection import ConnectionSettings
from cluster.settings import load_settings
from cluster.terminal import counted
from mappings import LISTING, RESOURCES, SOLD_LISTING, Resource
from mappings.shards import LEFT_QUERY
from service.audit.capability import AuditSettings
from service.audit.reads import LIVE
from service.audit.store import AuditCoverage, AuditStore, CurrentRecord, Holder, NoAudit, find_holders
from service.feed.streaming import iso_timestamp
from service.keys.api_key import ApiKey, DamagedKey
from service.keys.store import KeyStore
from service.search.query import spellings

_COLUMNS = (
    Column("Key id"),
    Column("Name", may_fold=True),
    Column("Key"),
    Column("Resource"),
    Column("Last sent"),
    Column("Times"),
    Column("Sequence"),
    Column("State"),
    Column("Removal read"),
)
_NOTHING = "-"


@dataclass(frozen=True)
class AuditReport:
    records: Sequence[CurrentRecord]
    holders: Sequence[Holder]
    keys: Mapping[str, ApiKey | DamagedKey]
    coverage: AuditCoverage
    now: dt.datetime

    def as_json(self) -> dict[str, Any]:
        """Return all of it; times are ISO 8601 in UTC."""
        return {
            "records": [
                {
                    "resource": record.resource,
                    "id": record.identifier,
                    "state": record.state,
                    "sequence": record.sequence,
                }
                for record in self.records
            ],
            "holders": [self._holder(holder) for holder in self.holders],
            "recorded": [[_iso(start), _iso(end)] for start, end in self.coverage.periods()],
            "missing": self.missing(),
        }

    def _holder(self, holder: Holder) -> dict[str, Any]:
        current = next(record for record in self.records if record.resource == holder.resource)
        key = self.keys.get(holder.key_id)
        name = key.name if isinstance(key, ApiKey) else None
        state = key_state(key, self.now) if key else "unknown"
        return {**holder.as_json(current), "name": name, "key_state": state}

    def missing(self) -> list[str]:
        """Return a sentence for each time of which the audit does not know everything."""
        periods = self.coverage.periods()
        pauses = [
            f"Nothing was recorded from {_iso(end)} to {_iso(start)}: no process recorded."
            for (_, end), (start, _) in itertools.pairwise(periods)
        ]
        gaps = [
            f"{counted(gap['lost'], 'record')} sent from {_iso(gap['since'])} to {_iso(gap['until'])} went unrecorded: "
            "memory was full while Elasticsearch did not accept the audit."
            for gap in sorted(self.coverage.gaps, key=lambda gap: int(gap["since"]))
        ]
        broken = [
            f"A process ended, or cannot write, after {_iso(session['until'])}: what it sent since was not recorded."
            for session in self.coverage.broken(int(self.now.timestamp() * 1000))
        ]
        return [*pauses, *gaps, *broken] if periods else ["Nothing was recorded."]

    def lines(self) -> Iterator[str]:
        for record in self.records:
            yield f"{record.resource} {record.identifier}: {record.state}, sequence {record.sequence}"
        for start, end in self.coverage.periods():
            yield f"Recorded from {_iso(start)} to {_iso(end)}."
        yield from (f"Incomplete: {sentence}" for sentence in self.missing())
        rows = [self._holder(holder) for holder in self.holders]
        removed = sum(row["removal_read"] is not None for row in rows)
        yield f"Sent to {counted(len(rows), 'key')}; {removed} of them have read since that it is gone."
        if rows:
            styles = ["yellow" if row["state"] == LIVE else "dim" for row in rows] if may_style() else ()
            yield from table_lines(_COLUMNS, [_cells(row) for row in rows], terminal_width(), styles)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    sent = row["last_sent"] or (f"{row['last_confirmed']} (304)" if row["last_confirmed"] else _NOTHING)
    state = f"{LIVE}, current" if row["is_current"] else row["state"]
    values = (
        row["key_id"],
        row["name"] or _NOTHING,
        row["key_state"],
        row["resource"],
        sent,
        str(row["times_sent"]),
        _NOTHING if row["sequence"] is None else str(row["sequence"]),
        state,
        row["removal_read"] or _NOTHING,
    )
    return tuple(values)


def _iso(milliseconds: int) -> str:
    return iso_timestamp(milliseconds).decode()


Result = TypeVar("Result")
_TIMEOUT_SECONDS = 60.0
_RESOURCES = {resource.alias: resource for resource in RESOURCES}
_NOT_CREATED = "There is no audit: run `brokerage audit create`, and start the service with BROKERAGE_AUDIT_DAYS."


@click.group(epilog=epilog("brokerage audit create", "brokerage audit who LISTING_ID", exits=QUERY_EXITS))
def audit() -> None:
    """Show which keys were sent a record. The service records it if BROKERAGE_AUDIT_DAYS is set."""


@audit.command(epilog=epilog("brokerage audit create", exits=QUERY_EXITS))
def create() -> None:
    """Create the index of the audit. The service may write to it, but not create it."""
    created = _run(lambda client, connection: AuditStore(client, connection.audit_index).create())
    echo("Created the index of the audit." if created else "There is an index of the audit already.")


@audit.command(epilog=epilog("brokerage audit prune", "brokerage audit prune --json", exits=QUERY_EXITS))
@click.option("--json", "as_json", is_flag=True, help='Print {"deleted": […]}.')
def prune(*, as_json: bool) -> None:
    """Delete what is older than BROKERAGE_AUDIT_DAYS. Run it once a day: each run begins the index of a day."""
    with exit_on_error():
        days = load_settings(AuditSettings, os.environ).audit_days
    if not days:
        fail("BROKERAGE_AUDIT_DAYS is 0 here: set it to the days that are kept, as for the service.", ExitCode.USAGE)
    deleted = _run(lambda client, connection: AuditStore(client, connection.audit_index).prune(days))
    echo(orjson.dumps({"deleted": deleted}) if as_json else f"Deleted: {', '.join(deleted) or 'no index'}.")


@audit.command(
    epilog=epilog(
        "brokerage audit who 4711-12345",
        "brokerage audit who 4711-12345 --resource listings --json",
        exits="0 success, 1 failure, or parts were not recorded, 2 usage or settings error, "
        "3 Elasticsearch unavailable",
    )
)
@click.argument("identifier")
@click.option(
    "--resource",
    "resources",
    type=click.Choice(list(_RESOURCES)),
    multiple=True,
    default=(LISTING.alias, SOLD_LISTING.alias),
    help="The resource of the record; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def who(*, identifier: str, resources: tuple[str, ...], as_json: bool) -> None:
    """Name the keys that were sent the record IDENTIFIER, when last, in which state, and who read its removal since.

    What the service sent in the last few seconds may be missing. Times are UTC.
    """
    chosen = [_RESOURCES[name] for name in dict.fromkeys(resources)]
    report = _run(partial(_report, identifier=identifier, resources=chosen))
    if as_json:
        echo(orjson.dumps(report.as_json()))
    else:
        sys.stdout.writelines(f"{line}\n" for line in report.lines())
    sys.exit(ExitCode.FAILED if report.missing() else ExitCode.SUCCESS)


async def _report(
    client: AsyncElasticsearch, connection: ConnectionSettings, identifier: str, resources: Sequence[Resource]
) -> AuditReport:
    store, names = AuditStore(client, connection.audit_index), spellings(identifier)
    records = [await _current_record(client, connection.alias(resource), resource, names) for resource in resources]
    holders = [holder for resource in resources for holder in await find_holders(store.sent(resource.alias, names))]
    keys = await KeyStore(client, connection.keys_index).list_all()
    by_id = {key.key_id: key for key in keys}
    return AuditReport(records, holders, by_id, await store.coverage(), dt.datetime.now(dt.UTC))


async def _current_record(
    client: AsyncElasticsearch, alias: str, resource: Resource, names: Sequence[str]
) -> CurrentRecord:
    try:
        of_names = {"bool": {"filter": {"terms": {"_id": list(names)}}, "must_not": LEFT_QUERY}}
        fields = ["id", "deleted", "sequence"]
        response = await client.search(index=alias, query=of_names, source_includes=fields, size=1)
    except NotFoundError:
        return CurrentRecord(resource.alias, names[0])
    for hit in response["hits"]["hits"]:
        state = "deleted" if hit["_source"].get("deleted") else LIVE
        return CurrentRecord(resource.alias, hit["_id"], state, hit["_source"]["sequence"])
    return CurrentRecord(resource.alias, names[0])


def _run(work: Callable[[AsyncElasticsearch, ConnectionSettings], Awaitable[Result]]) -> Result:
    try:
        return run_with_client(work, _TIMEOUT_SECONDS)
    except NoAudit:
        fail(_NOT_CREATED)
