"""`brokerage keys`: create, list and revoke API keys."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
from typing import TYPE_CHECKING, TypeVar

import orjson
import rich_click as click
from rich.table import Table

from brokerage.failures import Exit, fail, told_plainly
from brokerage.tables import show
from cluster.connection import ConnectionSettings, connect
from cluster.settings import read
from service.keys.store import Grant, KeyStore, UnknownKey

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from service.keys.record import ApiKey

Result = TypeVar("Result")

_COMPANY = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_TIMEOUT_SECONDS = 30.0


class Rate(click.ParamType[int]):
    """Requests a minute, or `unlimited`."""

    name = "N|unlimited"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; 0 stands for unlimited."""
        if value == "unlimited":
            return 0
        if not str(value).isdecimal() or int(value) == 0:
            self.fail(f"{value!r} is neither a number of requests a minute nor `unlimited`.", param, ctx)
        return int(value)


class Moment(click.ParamType[dt.datetime]):
    """An ISO 8601 date or date-time; without an offset it is UTC."""

    name = "T"

    def convert(
        self, value: str | dt.datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.datetime:
        """Return the moment with its offset."""
        try:
            moment = dt.datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no ISO 8601 time, for example 2027-06-30 or 2027-06-30T12:00:00Z.", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


@click.group()
def keys() -> None:
    """Create, list and revoke API keys. Only a hash of a key is stored."""


@keys.command()
@click.argument("name")
@click.option("--company", "companies", multiple=True, metavar="C", help="A company that the key may read.")
@click.option("--parent-company", "parents", multiple=True, metavar="P", help="A parent: itself and its children.")
@click.option("--all-companies", is_flag=True, help="Every company and every parent.")
@click.option("--rate", type=Rate(), default=300, help="Requests a minute.")
@click.option("--expires", type=Moment(), help="Time of expiry, ISO 8601.")
@click.option("--json", "as_json", is_flag=True, help='Print {"key_id": …, "key": …}.')
def create(  # noqa: PLR0913 - one argument an option
    *,
    name: str,
    companies: tuple[str, ...],
    parents: tuple[str, ...],
    all_companies: bool,
    rate: int,
    expires: dt.datetime | None,
    as_json: bool,
) -> None:
    """Create a key and print it, once.

    Companies are given by key or numeric id. Example: brokerage keys create "North portal" --company evergreen-realty
    """
    _check_scope(companies, parents, all_companies=all_companies)
    grant = Grant(name, companies, parents, all_companies, rate or None, expires)
    text = _with_store(lambda store: store.create(grant))
    if as_json:
        click.echo(orjson.dumps({"key_id": text.key_id, "key": text.reveal()}))
    else:
        click.echo(f"{text.reveal()}\n\nkey id {text.key_id}. The key is shown this once: only its hash is stored.")


def _check_scope(companies: tuple[str, ...], parents: tuple[str, ...], *, all_companies: bool) -> None:
    for company in (*companies, *parents):
        if not _COMPANY.fullmatch(company):
            fail(f"{company!r} is not a company: use its key (letters, digits, _ and -) or numeric id.", Exit.USAGE)
    if not (companies or parents or all_companies):
        fail("Say what the key may read: --company, --parent-company or --all-companies.", Exit.USAGE)


@keys.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_keys(*, as_json: bool) -> None:
    """List all keys, oldest first."""
    found = _with_store(lambda store: store.everything())
    rows = [_row(key) for key in found]
    if as_json:
        click.echo(orjson.dumps(rows))
        return
    table = Table("Key id", "Name", "Scope", "Rate a minute", "Created", "State", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*(str(row[name]) for name in ("key_id", "name", "scope", "rate", "created", "state")))
    show(table)


def _row(key: ApiKey) -> dict[str, object]:
    scope = [*key.companies, *(f"{parent} and children" for parent in key.parent_companies)]
    state = "revoked" if key.revoked else "active" if key.usable(dt.datetime.now(dt.UTC)) else "expired"
    return {
        "key_id": key.key_id,
        "name": key.name,
        "scope": "all companies" if key.all_companies else ", ".join(scope),
        "rate": "unlimited" if key.rate is None else key.rate,
        "created": key.created.strftime("%Y-%m-%d %H:%M"),
        "expires": None if key.expires is None else key.expires.isoformat(),
        "state": state,
    }


@keys.command()
@click.argument("key_id")
def revoke(key_id: str) -> None:
    """Make a key unusable. It holds on every replica within seconds."""
    try:
        _with_store(lambda store: store.revoke(key_id))
    except UnknownKey as error:
        fail(str(error))
    click.echo(f"revoked {key_id}")


def _with_store(work: Callable[[KeyStore], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        connection = read(ConnectionSettings, os.environ)
        async with connect(connection, connections=2, timeout=_TIMEOUT_SECONDS) as client:
            return await work(KeyStore(client, connection.keys_index))

    with told_plainly():
        return asyncio.run(run())
