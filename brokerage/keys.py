"""`brokerage keys`: the life cycle of API keys.

An invalid value of an option fails with a sentence that names valid ones.
"""

import asyncio
import datetime as dt
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

import orjson
import rich_click as click
from elasticsearch import AsyncElasticsearch, AuthorizationException, NotFoundError

from brokerage.command_runs import run_with_client
from brokerage.help import QUERY_EXITS, epilog
from brokerage.key_tables import key_as_json, key_table, keys_table
from brokerage.tables import print_table
from brokerage_feed.terminal import ExitCode, echo, fail
from cluster.connection import ConnectionSettings
from cluster.index_state import BlockedIndex
from mappings import COMPANY, FIELD_GROUPS
from mappings.visibility import DisplayLicence
from service.keys.api_key import COMPATIBLE, TIER_PATTERN, KeyText
from service.keys.revocation_list import REVOCATION_LIST_SETTING
from service.keys.store import KeyGrant, KeyStore, UnchangeableKey, UnknownKey
from service.search.query import term, terms

_COUNT = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_COMPANY = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_DURATION = re.compile(r"(?P<number>[0-9]{1,5})(?P<unit>[mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FULL_KEY = re.compile(r"bk_(?P<key_id>[a-z0-9]{10})_.*", re.ASCII | re.DOTALL)
_MAX_TEXT_LENGTH = 500


class RateOption(click.ParamType[int]):
    """Requests per minute, or `unlimited`."""

    name = "N|unlimited"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, 0 for unlimited."""
        if value == "unlimited":
            return 0
        if not _COUNT.fullmatch(str(value)):
            self.fail(f"{value!r} is neither a number of requests per minute nor `unlimited`.", param, ctx)
        return int(value)


class TimestampOption(click.ParamType[dt.datetime]):
    """An ISO 8601 date or date-time; without an offset it is UTC."""

    name = "T"

    def convert(
        self, value: str | dt.datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.datetime:
        try:
            moment = dt.datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not an ISO 8601 time such as 2027-06-30 or 2027-06-30T12:00:00Z.", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


class DurationOption(click.ParamType[dt.timedelta]):
    """A number of minutes, hours, days or weeks; or 0."""

    name = "DURATION|0"

    def convert(
        self, value: str | dt.timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.timedelta:
        if isinstance(value, dt.timedelta):
            return value
        match = _DURATION.fullmatch(value)
        if value != "0" and match is None:
            self.fail(f"{value!r} is not a duration such as 7d, 12h, 30m or 0.", param, ctx)
        return dt.timedelta(**{_UNITS[match["unit"]]: int(match["number"])}) if match else dt.timedelta()


class CompanyOption(click.ParamType[str]):
    name = "C"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not _COMPANY.fullmatch(value):
            self.fail(f"{value!r} is not a company: use its key (letters, digits, _ and -) or numeric id.", param, ctx)
        return value


class TierOption(click.ParamType[str]):
    name = "T"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(TIER_PATTERN, value):
            self.fail(f"{value!r} is not a tier name: use 1 to 32 of a-z, 0-9 and -.", param, ctx)
        return value


class FieldGroupsOption(click.ParamType["tuple[str, ...] | None"]):
    """`all`, `none`, or names of field groups separated by commas."""

    name = "LIST"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...] | None:
        """Return the sorted groups, None for all."""
        names = {part.strip() for part in value.split(",")} if isinstance(value, str) else set(value)
        if len(names) == 1 and names <= {"all", "none"}:
            return None if names == {"all"} else ()
        if unknown := names - FIELD_GROUPS:
            known = ", ".join(sorted(FIELD_GROUPS))
            self.fail(f"{min(unknown)!r} is not a field group: use all, none, or some of {known}.", param, ctx)
        return tuple(sorted(names))


class KeyIdOption(click.ParamType[str]):
    name = "KEY_ID"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id. A full key is rejected, and not repeated since it is a secret."""
        if match := _FULL_KEY.fullmatch(value):
            self.fail(f"That is a full key, which is a secret. Use its id: {match['key_id']}", param, ctx)
        return value


class TextOption(click.ParamType[str]):
    name = "TEXT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text. Control characters are rejected: they could move the cursor of a terminal."""
        if not value.isprintable() or len(value) > _MAX_TEXT_LENGTH:
            self.fail(f"It must be one line of at most {_MAX_TEXT_LENGTH} characters.", param, ctx)
        return value


def rate_grant(rate: int | None, tier: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the grant's members for a rate (0 for unlimited) or a tier; raise UsageError for both."""
    if rate is not None and tier is not None:
        raise click.UsageError("--rate and --tier are mutually exclusive: a tier sets the rate.")
    if tier is not None:
        yield "tier", tier
    if rate is not None:
        yield "rate", rate or None


Result = TypeVar("Result")

_TIMEOUT_SECONDS = 30.0
OVERLAP = dt.timedelta(days=7)
_FULL_DISKS = (
    "Note: disks of Elasticsearch are full. Their block was lifted from the index of keys for this change; "
    "Elasticsearch sets it again. Free disk space."
)
_STILL_WORKS = (
    "The key still works. To have the service refuse it now, add its id to the file that "
    f"{REVOCATION_LIST_SETTING} names on every host."
)


@click.group(
    epilog=epilog(
        'brokerage keys create "North portal" --company evergreen-realty', "brokerage keys list", exits=QUERY_EXITS
    )
)
def keys() -> None:
    """Create, list, rotate and revoke API keys. Only their hashes are stored."""


_key_id = click.argument("key_id", type=KeyIdOption())
_print_key = click.option("--json", "as_json", is_flag=True, help='Print {"key_id": …, "key": …}.')


@keys.command(
    epilog=epilog(
        'brokerage keys create "North portal" --company evergreen-realty',
        "brokerage keys create CRM --parent-company 4711 --expires 2027-06-30",
        "brokerage keys create Analytics --all-companies --tier gold --fields none",
        exits=QUERY_EXITS,
    )
)
@click.argument("name", type=TextOption())
@click.option(
    "--company", "companies", multiple=True, type=CompanyOption(), help="A company that the key can read; repeatable."
)
@click.option(
    "--parent-company",
    "parent_companies",
    multiple=True,
    type=CompanyOption(),
    help="A parent company and its children; repeatable.",
)
@click.option("--all-companies", is_flag=True, help="All companies.")
@click.option("--rate", type=RateOption(), help="Requests per minute; 300 by default.")
@click.option("--burst", type=click.IntRange(1, 1_000_000), metavar="N", help="Requests in a burst.")
@click.option("--tier", type=TierOption(), help="Rate tier, instead of a rate.")
@click.option(
    "--fields",
    type=FieldGroupsOption(),
    default="all",
    help="Guarded field groups that the key can see: all, none, or names.",
)
@click.option("--profile", type=click.Choice([COMPATIBLE]), help="compatible: works with clients of similar platforms.")
@click.option(
    "--display", type=click.Choice([DisplayLicence.IDX.value]), help="idx: without what sellers opted out of."
)
@click.option("--expires", type=TimestampOption(), help="Expiry time, ISO 8601.")
@click.option("--note", type=TextOption(), default="", help="A note for yourself.")
@_print_key
def create(*, rate: int | None, tier: str | None, as_json: bool, **granted: Any) -> None:
    """Create a key and print it. Companies are given by key or numeric id."""
    _require_one_scope(
        has_companies=bool(granted["companies"] or granted["parent_companies"]), is_all=granted["all_companies"]
    )
    grant = KeyGrant(**granted, **dict(rate_grant(rate, tier)))
    _warn(grant)
    text = _with_store(lambda store: store.create(grant))
    _print_new_key(text, f"key id {text.key_id}. The key is shown only now: only its hash is stored.", as_json=as_json)


def _require_one_scope(*, has_companies: bool, is_all: bool) -> None:
    if has_companies and is_all:
        fail("--all-companies is mutually exclusive with --company and --parent-company.", ExitCode.USAGE)
    if not (has_companies or is_all):
        fail("Choose what the key can read: --company, --parent-company or --all-companies.", ExitCode.USAGE)


def _warn(grant: KeyGrant) -> None:
    """Print notes on a grant that is probably, but not certainly, a mistake."""
    if grant.expires and grant.expires <= dt.datetime.now(dt.UTC):
        echo("Note: the expiry time has passed, so the key cannot be used.", err=True)
    work = partial(unknown_companies, companies=[*grant.companies, *grant.parent_companies])
    for company in run_with_client(work, _TIMEOUT_SECONDS):
        echo(f"Note: company {company!r} is not loaded yet. The key can read it as soon as it is.", err=True)


def _print_new_key(text: KeyText, note: str, *, as_json: bool) -> None:
    if as_json:
        echo(orjson.dumps({"key_id": text.key_id, "key": text.reveal()}))
    else:
        echo(f"{text.reveal()}\n\n{note}")


@keys.command("list", epilog=epilog("brokerage keys list", "brokerage keys list --json", exits=QUERY_EXITS))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_keys(*, as_json: bool) -> None:
    """List all keys, oldest first. Times are UTC."""
    stored, used = _with_store(_load_all)
    now = dt.datetime.now(dt.UTC)
    if as_json:
        echo(orjson.dumps([key_as_json(key, used, now) for key in stored]))
    elif stored:
        sys.stdout.writelines(f"{line}\n" for line in keys_table(stored, used, now))
    else:
        echo("There are no keys yet: create one with `brokerage keys create`.", err=True)


async def _load_all(store: KeyStore) -> tuple[Any, Any]:
    return await asyncio.gather(store.list_all(), store.last_used())


@keys.command("show", epilog=epilog("brokerage keys show 3pbjukwvd6", exits=QUERY_EXITS))
@_key_id
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def show_key(key_id: str, *, as_json: bool) -> None:
    """Show the details of a key. The key itself is not stored."""

    async def load(store: KeyStore) -> tuple[Any, Any]:
        return await store.get_key(key_id), await store.last_use(key_id)

    (key, used), now = _with_store(load), dt.datetime.now(dt.UTC)
    if as_json:
        echo(orjson.dumps(key_as_json(key, used, now)))
    else:
        print_table(key_table(key, used, now))


@keys.command(
    epilog=epilog(
        "brokerage keys rotate 3pbjukwvd6", "brokerage keys rotate 3pbjukwvd6 --overlap 12h", exits=QUERY_EXITS
    )
)
@_key_id
@click.option("--overlap", type=DurationOption(), default=OVERLAP, show_default="7d", help="How long both keys work.")
@_print_key
def rotate(key_id: str, *, overlap: dt.timedelta, as_json: bool) -> None:
    """Create a successor with the same grant and print it. The old key expires after the overlap."""
    text = _with_store(lambda store: store.rotate(key_id, overlap))
    ends = f"by {dt.datetime.now(dt.UTC) + overlap:%Y-%m-%d %H:%M} UTC" if overlap else "within seconds"
    note = f"key id {text.key_id}. The key is shown only now: only its hash is stored. {key_id} stops working {ends}."
    _print_new_key(text, note, as_json=as_json)


@keys.command(epilog=epilog("brokerage keys revoke 3pbjukwvd6", exits=QUERY_EXITS))
@_key_id
def revoke(key_id: str) -> None:
    """Revoke a key for good. Every process rejects it within seconds, also while disks of Elasticsearch are full."""
    with _note_that_key_works():
        _with_store(lambda store: store.revoke(key_id))
    echo(f"revoked {key_id}")


@keys.command(
    epilog=epilog(
        "brokerage keys expire 3pbjukwvd6 --at 2027-06-30",
        "brokerage keys expire 3pbjukwvd6 --never",
        exits=QUERY_EXITS,
    )
)
@_key_id
@click.option("--at", type=TimestampOption(), help="Expiry time, ISO 8601; now by default.")
@click.option("--never", is_flag=True, help="Remove the expiry.")
def expire(key_id: str, *, at: dt.datetime | None, never: bool) -> None:
    """Set or remove the expiry of a key. It takes effect on every process within seconds."""
    if never and at:
        raise click.UsageError("--at and --never are mutually exclusive.")
    moment = None if never else at or dt.datetime.now(dt.UTC)
    with _note_that_key_works() if moment else nullcontext():
        _with_store(lambda store: store.expire(key_id, moment))
    echo(f"{key_id} expires {f'{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC' if moment else 'never'}")


@contextmanager
def _note_that_key_works() -> Iterator[None]:
    """Name the way to refuse a key that needs no Elasticsearch, if Elasticsearch is why the command fails."""
    try:
        yield
    except SystemExit as error:
        if error.code == ExitCode.UNAVAILABLE:
            echo(_STILL_WORKS, err=True)
        raise


def _with_store(work: Callable[[KeyStore], Awaitable[Result]]) -> Result:
    async def run(client: AsyncElasticsearch, connection: ConnectionSettings) -> Result:
        store = KeyStore(client, connection.keys_index, connection.usage_index)
        result = await work(store)
        if store.has_lifted_block:
            echo(_FULL_DISKS, err=True)
        return result

    try:
        return run_with_client(run, _TIMEOUT_SECONDS)
    except (UnknownKey, UnchangeableKey) as error:
        fail(str(error))
    except BlockedIndex as error:
        fail(str(error), ExitCode.UNAVAILABLE)


async def unknown_companies(
    client: AsyncElasticsearch, connection: ConnectionSettings, companies: Sequence[str]
) -> list[str]:
    """Return which of these companies, given by key or numeric id, are not loaded."""
    if not companies:
        return []
    by_key_or_id = {"bool": {"should": [terms("_id", companies), terms("numeric_id", companies)]}}
    try:
        response = await client.search(
            index=connection.alias(COMPANY),
            query={"bool": {"filter": [term("deleted", value=False), by_key_or_id]}},
            size=2 * len(companies),
            source_includes=["numeric_id"],
        )
    except NotFoundError:
        return list(companies)
    except AuthorizationException:
        # A user that manages keys may lack `read` on companies.
        return []
    hits = response["hits"]["hits"]
    known = {hit["_id"] for hit in hits} | {hit["_source"].get("numeric_id") for hit in hits}
    return [company for company in companies if company not in known]
