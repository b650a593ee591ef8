"""`brokerage keys`: the whole life of API keys."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import rich_click as click

from brokerage.examples import ASKING, ending
from brokerage.failures import Exit, fail, told_plainly
from brokerage.keys_companies import unknown_companies
from brokerage.keys_options import Company, Duration, Fields, KeyId, Moment, Rate, Tier, Words, limits
from brokerage.keys_table import as_json as told
from brokerage.keys_table import key_table, keys_table
from brokerage.tables import show as print_table
from cluster.connection import ConnectionSettings, connect
from cluster.settings import read
from service.keys.store import Grant, KeyStore, UnchangeableKey, UnknownKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from elasticsearch import AsyncElasticsearch

    from service.keys.text import KeyText

Result = TypeVar("Result")

_TIMEOUT_SECONDS = 30.0
_OVERLAP = dt.timedelta(days=7)


@click.group(
    epilog=ending(
        'brokerage keys create "North portal" --company evergreen-realty', "brokerage keys list", exits=ASKING
    )
)
def keys() -> None:
    """Create, list, change and revoke API keys. Only a hash of a key is stored."""


_key_id = click.argument("key_id", type=KeyId())
_print_key = click.option("--json", "as_json", is_flag=True, help='Print {"key_id": …, "key": …}.')


@keys.command(
    epilog=ending(
        'brokerage keys create "North portal" --company evergreen-realty',
        "brokerage keys create CRM --parent-company 4711 --expires 2027-06-30",
        "brokerage keys create Analytics --all-companies --tier gold --fields none",
        exits=ASKING,
    )
)
@click.argument("name", type=Words())
@click.option("--company", "companies", multiple=True, type=Company(), help="A company that the key may read.")
@click.option("--parent-company", "parent_companies", multiple=True, type=Company(), help="A parent and its children.")
@click.option("--all-companies", is_flag=True, help="Every company and every parent.")
@click.option("--rate", type=Rate(), help="Requests a minute; 300 unless given.")
@click.option("--burst", type=click.IntRange(1, 1_000_000), metavar="N", help="Requests at once.")
@click.option("--tier", type=Tier(), help="Rate tier, instead of a rate.")
@click.option("--fields", type=Fields(), default="all", help="Guarded field groups it may see: all, none, or names.")
@click.option("--expires", type=Moment(), help="Time of expiry, ISO 8601.")
@click.option("--note", type=Words(), default="", help="Whatever you want to remember.")
@_print_key
def create(*, rate: int | None, tier: str | None, as_json: bool, **granted: Any) -> None:
    """Create a key and print it, once. Companies are given by key or numeric id."""
    if not (granted["companies"] or granted["parent_companies"] or granted["all_companies"]):
        fail("Say what the key may read: --company, --parent-company or --all-companies.", Exit.USAGE)
    grant = Grant(**granted, **dict(limits(rate, tier)))
    _warn(grant)
    text = _with_store(lambda store: store.create(grant))
    _print(text, f"key id {text.key_id}. The key is shown this once: only its hash is stored.", as_json=as_json)


def _warn(grant: Grant) -> None:
    """Say what is odd about a grant and may be meant all the same."""
    if grant.expires and grant.expires <= dt.datetime.now(dt.UTC):
        click.echo("Note: the time of expiry has passed, so nobody can use the key.", err=True)
    for company in _run(partial(unknown_companies, named=[*grant.companies, *grant.parent_companies])):
        click.echo(f"Note: no company {company!r} is loaded. The key reads it as soon as it is.", err=True)


def _print(text: KeyText, said: str, *, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps({"key_id": text.key_id, "key": text.reveal()}))
    else:
        click.echo(f"{text.reveal()}\n\n{said}")


@keys.command("list", epilog=ending("brokerage keys list", "brokerage keys list --json", exits=ASKING))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_keys(*, as_json: bool) -> None:
    """List all keys, oldest first. Times are UTC."""
    stored, used = _with_store(_everything)
    now = dt.datetime.now(dt.UTC)
    if as_json:
        click.echo(orjson.dumps([told(key, used, now) for key in stored]))
    elif stored:
        print_table(keys_table(stored, used, now))
    else:
        click.echo("There are no keys yet: `brokerage keys create` makes one.", err=True)


async def _everything(store: KeyStore) -> tuple[Any, Any]:
    return await store.stored(), await store.last_used()


@keys.command("show", epilog=ending("brokerage keys show 3pbjukwvd6", exits=ASKING))
@_key_id
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def show_key(key_id: str, *, as_json: bool) -> None:
    """Show all that is known of a key; the key itself is not."""

    async def look(store: KeyStore) -> tuple[Any, Any]:
        return await store.one(key_id), await store.last_used()

    (key, used), now = _with_store(look), dt.datetime.now(dt.UTC)
    if as_json:
        click.echo(orjson.dumps(told(key, used, now)))
    else:
        print_table(key_table(key, used, now))


@keys.command(
    epilog=ending("brokerage keys rotate 3pbjukwvd6", "brokerage keys rotate 3pbjukwvd6 --overlap 12h", exits=ASKING)
)
@_key_id
@click.option("--overlap", type=Duration(), default=_OVERLAP, show_default="7d", help="How long both keys work.")
@_print_key
def rotate(key_id: str, *, overlap: dt.timedelta, as_json: bool) -> None:
    """Create a second key with the same grant and print it, once. The first expires after the overlap."""
    text = _with_store(lambda store: store.rotate(key_id, overlap))
    ends = f"by {dt.datetime.now(dt.UTC) + overlap:%Y-%m-%d %H:%M} UTC" if overlap else "within seconds"
    said = f"key id {text.key_id}. The key is shown this once: only its hash is stored. {key_id} stops working {ends}."
    _print(text, said, as_json=as_json)


@keys.command(epilog=ending("brokerage keys revoke 3pbjukwvd6", exits=ASKING))
@_key_id
def revoke(key_id: str) -> None:
    """Make a key unusable, for good. It holds on every process within seconds."""
    _with_store(lambda store: store.revoke(key_id))
    click.echo(f"revoked {key_id}")


@keys.command(
    epilog=ending(
        "brokerage keys expire 3pbjukwvd6 --at 2027-06-30", "brokerage keys expire 3pbjukwvd6 --never", exits=ASKING
    )
)
@_key_id
@click.option("--at", type=Moment(), help="Time of expiry, ISO 8601; now unless given.")
@click.option("--never", is_flag=True, help="Take the expiry away.")
def expire(key_id: str, *, at: dt.datetime | None, never: bool) -> None:
    """Set when a key expires, or that it does not. It holds on every process within seconds."""
    if never and at:
        raise click.UsageError("--at and --never exclude each other.")
    moment = None if never else at or dt.datetime.now(dt.UTC)
    _with_store(lambda store: store.expire(key_id, moment))
    click.echo(f"{key_id} expires {f'{moment.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC' if moment else 'never'}")


def _with_store(work: Callable[[KeyStore], Awaitable[Result]]) -> Result:
    async def run(client: AsyncElasticsearch, connection: ConnectionSettings) -> Result:
        return await work(KeyStore(client, connection.keys_index, connection.usage_index))

    try:
        return _run(run)
    except (UnknownKey, UnchangeableKey) as error:
        fail(str(error))


def _run(work: Callable[[AsyncElasticsearch, ConnectionSettings], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        connection = read(ConnectionSettings, os.environ)
        async with connect(connection, connections=2, timeout=_TIMEOUT_SECONDS) as client:
            return await work(client, connection)

    with told_plainly():
        return asyncio.run(run())
