"""`brokerage subscriptions`: what is sent where, in the name of which key."""

import asyncio
import datetime as dt
import os
import re
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
import orjson
import rich_click as click
from elasticsearch import AsyncElasticsearch, NotFoundError
from marshmallow import ValidationError

from brokerage.command_runs import exit_on_error, run_with_client
from brokerage.help import QUERY_EXITS, epilog
from brokerage.key_tables import key_state
from brokerage.keys import OVERLAP, DurationOption, KeyIdOption
from brokerage.tables import Column, may_style, table_lines, terminal_width
from brokerage_feed.terminal import ExitCode, echo, fail
from cluster.connection import ConnectionSettings
from cluster.control_index import HEAD_ID, ensure_index, read_mark
from cluster.settings import load_settings
from mappings import RESOURCES
from service.deliver.courier import signed_headers
from service.deliver.reading import find_operation
from service.deliver.sender import RefusedAddress, Sender, require_deliverable
from service.deliver.settings import DeliverSettings
from service.deliver.signatures import ED25519_PREFIX, new_secret, public_key
from service.deliver.subscriptions import (
    DELIVERIES_INDEX_BODY,
    MAX_SUBSCRIPTIONS,
    NOW,
    SUBSCRIPTIONS_INDEX_BODY,
    Body,
    Progress,
    Subscription,
    decode_deliveries,
    now_milliseconds,
)
from service.keys.store import KeyStore, UnknownKey
from service.subscriptions import KnownSubscriptions
from service.token import FeedPosition, is_sealed

_TIMEOUT_SECONDS = 30.0
_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_START = "start"
_STYLES = {"active": "green", "failing": "yellow", "open": "red", "stopped": "red", "paused": "dim"}
_COLUMNS = (
    Column("Name"),
    Column("Key id"),
    Column("URL", may_fold=True),
    Column("Sends", may_fold=True),
    Column("State"),
    Column("Behind"),
    Column("Delivered"),
    Column("Last answer", may_fold=True),
)


class _Stored(NamedTuple):
    subscription: Subscription
    seq_no: int
    primary_term: int


class UnusableSubscription(ValueError):
    """The command cannot be done; the text says why."""


class SubscriptionStore:
    """The subscriptions of one cluster."""

    def __init__(self, client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
        self._client = client
        self._connection = connection
        self._index, self._deliveries = connection.subscriptions_index, connection.deliveries_index

    async def create(self, subscription: Subscription) -> None:
        """Store a new subscription, and that nothing has been delivered; raise UnusableSubscription."""
        await ensure_index(self._client, self._index, SUBSCRIPTIONS_INDEX_BODY)
        await ensure_index(self._client, self._deliveries, DELIVERIES_INDEX_BODY)
        await self.require_valid_key(subscription.key_id)
        if any(stored.subscription.name == subscription.name for stored in await self.all()):
            raise UnusableSubscription(f"There is a subscription {subscription.name!r} already.")
        progress = Progress(
            name=subscription.name, key_id=subscription.key_id, url=subscription.url, waiting=subscription.created
        )
        await self._write(self._deliveries, subscription.id, progress, op_type="create")
        await self._write(self._index, subscription.id, subscription, op_type="create")

    async def require_valid_key(self, key_id: str) -> None:
        """Raise UnusableSubscription unless the key can be used."""
        try:
            key = await KeyStore(self._client, self._connection.keys_index).get_key(key_id)
        except UnknownKey as error:
            raise UnusableSubscription(str(error)) from error
        if (state := key_state(key, dt.datetime.now(dt.UTC))) != "active":
            raise UnusableSubscription(f"The key {key_id} is {state}: a subscription sends what a key may read.")

    async def all(self) -> list[_Stored]:
        """Return all subscriptions by name, none without their index."""
        return sorted(
            [
                _Stored(msgspec.convert(hit["_source"], Subscription), hit["_seq_no"], hit["_primary_term"])
                for hit in await self._hits(self._index)
            ],
            key=lambda stored: stored.subscription.name,
        )

    async def deliveries(self) -> tuple[dict[str, Progress], float]:
        """Return how far each subscription is, and when a process last gave a sign, as `decode_deliveries` does."""
        return decode_deliveries(await self._hits(self._deliveries))

    async def progress(self) -> dict[str, Progress]:
        """Return how far each subscription is, by its id."""
        return (await self.deliveries())[0]

    async def get(self, name: str) -> _Stored:
        """Return a subscription; raise UnusableSubscription for an unknown name."""
        known = {stored.subscription.name: stored for stored in await self.all()}
        if name not in known:
            near = get_close_matches(name, known)
            hint = f"Did you mean {near[0]}?" if near else "`brokerage subscriptions list` shows all of them."
            raise UnusableSubscription(f"There is no subscription {name!r}. {hint}")
        return known[name]

    async def edit(self, name: str, **changes: Any) -> Subscription:
        """Replace members of a subscription; raise UnusableSubscription for an unknown name."""
        stored = await self.get(name)
        subscription = msgspec.structs.replace(stored.subscription, edits=stored.subscription.edits + 1, **changes)
        condition = {"if_seq_no": stored.seq_no, "if_primary_term": stored.primary_term}
        await self._write(self._index, subscription.id, subscription, **condition)
        shown = {"is_paused": subscription.is_paused}
        await self._client.update(
            index=self._deliveries, id=subscription.id, doc=shown, retry_on_conflict=5, refresh=True
        )
        return subscription

    async def delete(self, name: str) -> None:
        """Delete a subscription and how far it was; raise UnusableSubscription for an unknown name."""
        identifier = (await self.get(name)).subscription.id
        for index in (self._index, self._deliveries):
            await self._client.options(ignore_status=404).delete(index=index, id=identifier, refresh=True)

    async def positions_now(self, resources: Sequence[str]) -> dict[str, FeedPosition]:
        """Return the positions of the watermarks of some resources, all if none are named."""
        control = self._connection.control_index
        return {
            resource.alias: FeedPosition.latest(
                await read_mark(self._client, control, self._connection.alias(resource))
            )
            for resource in RESOURCES
            if not resources or resource.alias in resources
        }

    async def last_event(self) -> str:
        """Return the number of the last event that was published."""
        try:
            head = await self._client.get(index=self._connection.control_index, id=HEAD_ID)
        except NotFoundError:
            return "0"
        return str(head["_source"].get("end", 0))

    async def _hits(self, index: str) -> list[dict[str, Any]]:
        try:
            response = await self._client.search(
                index=index, size=MAX_SUBSCRIPTIONS, seq_no_primary_term=True, allow_partial_search_results=False
            )
        except NotFoundError:
            return []
        hits: list[dict[str, Any]] = response["hits"]["hits"]
        return hits

    async def _write(self, index: str, identifier: str, document: msgspec.Struct, **condition: Any) -> None:
        body = msgspec.to_builtins(document)
        await self._client.index(index=index, id=identifier, document=body, refresh=True, **condition)


class StartOption(click.ParamType[str]):
    """`now`, `start`, a token of /changes or the number of an event."""

    name = "now|start|TOKEN"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        parts = value.split(",")
        if (
            value not in {NOW, _START}
            and not (value.isascii() and value.isdecimal())
            and not all(map(is_sealed, parts))
        ):
            self.fail(f"{value!r} is neither now nor start, nor a token of /changes as received.", param, ctx)
        return value


def _checked_name(_: click.Context, __: click.Parameter, value: str) -> str:
    if not _NAME.fullmatch(value):
        raise click.BadParameter("use 1 to 64 letters, digits, full stops, hyphens and underscores.")
    return value


def _start_of(body: Body, start: str) -> str:
    """Return a start as it is stored; raise UsageError if it is one of the other kind of body."""
    is_number = start.isdecimal()
    if start not in {NOW, _START} and is_number != (body is Body.EVENTS):
        wanted = "the number of an event" if body is Body.EVENTS else "a token of /changes"
        raise click.UsageError(f"--from: with --body {body} use now, start or {wanted}.")
    return "" if start == _START else start


_name = click.argument("name", callback=_checked_name)
_print_json = click.option("--json", "as_json", is_flag=True, help='Print {"name": …, "secret": …} or "public_key".')


@click.group(
    epilog=epilog(
        "brokerage subscriptions create crm --key 3pbjukwvd6 --url https://x.test/",
        "brokerage subscriptions list",
        exits=QUERY_EXITS,
    )
)
def subscriptions() -> None:
    """Keep the addresses to which changes are pushed. `brokerage deliver` sends them."""


@subscriptions.command(
    epilog=epilog(
        "brokerage subscriptions create crm --key 3pbjukwvd6 --url https://x.test/",
        exits=QUERY_EXITS,
    )
)
@_name
@click.option("--key", "key_id", type=KeyIdOption(), required=True, help="The key whose data it gets.")
@click.option("--url", required=True, help="The https address that deliveries are sent to.")
@click.option(
    "--resource",
    "resources",
    multiple=True,
    type=click.Choice([resource.alias for resource in RESOURCES]),
    help="A resource to send; repeatable. Default: all.",
)
@click.option(
    "--changed", default="", metavar="GROUPS", help="Send only changes of these groups, such as price,status."
)
@click.option(
    "--body",
    type=click.Choice([body.value for body in Body]),
    default=Body.CHANGES.value,
    help="What deliveries carry.",
)
@click.option("--from", "start", type=StartOption(), default=NOW, help="Where it begins.")
@click.option("--signature", type=click.Choice(["hmac", "ed25519"]), default="hmac", help="How deliveries are signed.")
@click.option(
    "--bearer-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file with a token that the receiver asks for, sent as Authorization: Bearer.",
)
@_print_json
def create(  # noqa: PLR0913 - one parameter for each option
    *,
    name: str,
    key_id: str,
    url: str,
    resources: tuple[str, ...],
    changed: str,
    body: str,
    start: str,
    signature: str,
    bearer_file: Path | None,
    as_json: bool,
) -> None:
    """Create the subscription NAME and print the secret that verifies its deliveries."""
    kind, groups = Body(body), tuple(filter(None, changed.split(",")))
    if kind is Body.EVENTS and (resources or groups):
        raise click.UsageError("--body events sends the events of all records: leave out --resource and --changed.")
    begins = _start_of(kind, start)
    _require_url(url)
    _require_changed(groups)
    secret = new_secret(is_asymmetric=signature == "ed25519")
    bearer = bearer_file.read_text(encoding="utf-8").strip() if bearer_file else ""

    async def store_it(store: SubscriptionStore) -> None:
        is_now = begins == NOW
        await store.create(
            Subscription(
                id=secrets.token_hex(8),
                name=name,
                key_id=key_id,
                url=url,
                secret=secret,
                created=now_milliseconds(),
                resources=resources,
                changed=groups,
                body=kind,
                bearer=bearer,
                start=await store.last_event() if is_now and kind is Body.EVENTS else begins,
                positions=await store.positions_now(resources) if is_now and kind is Body.CHANGES else {},
            )
        )

    _with_store(store_it)
    _print_secret(name, secret, f"`brokerage subscriptions test {name}` sends a first delivery.", as_json=as_json)


def _print_secret(name: str, secret: str, note: str, *, as_json: bool) -> None:
    """Print what verifies deliveries: a secret, or the public key of one."""
    verifies = public_key(secret) if secret.startswith(ED25519_PREFIX) else secret
    if as_json:
        echo(orjson.dumps({"name": name, "secret" if verifies == secret else "public_key": verifies}))
    else:
        shown = "The secret is shown only now" if verifies == secret else "This public key verifies deliveries"
        echo(f"{verifies}\n\n{name}: {shown}. {note}")


def _require_url(url: str) -> None:
    with exit_on_error():
        allow_private = load_settings(DeliverSettings, os.environ).allow_private
    try:
        require_deliverable(url, allow_private=allow_private)
    except RefusedAddress as error:
        raise click.BadParameter(str(error), param_hint="--url") from error


def _require_changed(groups: Sequence[str]) -> None:
    """Raise UsageError if `/changes` cannot filter by groups of fields, or not by these."""
    operation = find_operation(Body.CHANGES)
    parameter = None if operation is None else operation.schema.fields.get("changed")
    if groups and parameter is None:
        raise click.UsageError("--changed: this version of /changes has no filter by groups of fields. Leave it out.")
    if groups and parameter is not None:
        try:
            parameter.deserialize(",".join(groups))
        except ValidationError as error:
            raise click.BadParameter(" ".join(map(str, error.messages)), param_hint="--changed") from error


@subscriptions.command(
    "list", epilog=epilog("brokerage subscriptions list", "brokerage subscriptions list --json", exits=QUERY_EXITS)
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_subscriptions(*, as_json: bool) -> None:
    """List all subscriptions: how far they are behind, and the last answer of their addresses. Times are UTC."""
    stored, progress, heartbeat = _with_store(_load_all)
    if as_json:
        echo(orjson.dumps([_as_json(each.subscription, progress.get(each.subscription.id)) for each in stored]))
    elif stored:
        sys.stdout.writelines(f"{line}\n" for line in _table(stored, progress))
    else:
        echo("There are no subscriptions yet: create one with `brokerage subscriptions create`.", err=True)
    known = KnownSubscriptions([each.summary() for each in progress.values()], heartbeat)
    for problem in known.problems(time.time()):
        if problem.concerns_all:  # those of single subscriptions are in the table
            echo(f"{problem.text} {problem.remedy}", err=True)


async def _load_all(store: SubscriptionStore) -> tuple[list[_Stored], dict[str, Progress], float]:
    return await store.all(), *await store.deliveries()


def _as_json(subscription: Subscription, progress: Progress | None) -> dict[str, Any]:
    members: dict[str, Any] = msgspec.to_builtins(subscription)
    for hidden in ("secret", "replaced_secret", "bearer", "positions", "start", "starts", "is_paused", "edits"):
        del members[hidden]
    if progress is None:
        return members
    shown: dict[str, Any] = msgspec.to_builtins(progress.summary())
    return members | shown | {"since": progress.since, "failures": progress.failures}


def _table(stored: Sequence[_Stored], progress: dict[str, Progress]) -> Iterator[str]:
    rows, states = [], []
    for subscription, *_ in stored:
        found = progress.get(subscription.id) or Progress(name="", key_id="", url="")
        summary = found.summary()
        states.append(_STYLES[summary.state])
        rows.append(
            (
                subscription.name,
                subscription.key_id,
                subscription.url,
                ", ".join((subscription.body, *subscription.resources, *subscription.changed)),
                summary.state,
                "-" if summary.behind is None else _duration(summary.behind),
                f"{dt.datetime.fromtimestamp(summary.delivered, dt.UTC):%Y-%m-%d %H:%M:%S}"
                if summary.delivered
                else "never",
                summary.answer or "-",
            )
        )
    return table_lines(_COLUMNS, rows, terminal_width(), states if may_style() else ())


def _duration(seconds: float) -> str:
    return str(dt.timedelta(seconds=round(seconds))) if seconds >= 1 else "0"


@subscriptions.command(epilog=epilog("brokerage subscriptions pause crm", exits=QUERY_EXITS))
@_name
def pause(name: str) -> None:
    """Send nothing to NAME for now; changes wait for it."""
    _with_store(lambda store: store.edit(name, is_paused=True))
    echo(f"{name} is paused")


@subscriptions.command(epilog=epilog("brokerage subscriptions resume crm", exits=QUERY_EXITS))
@_name
def resume(name: str) -> None:
    """Send NAME what has waited for it, from where it was."""
    _with_store(lambda store: store.edit(name, is_paused=False))
    echo(f"{name} goes on where it was")


@subscriptions.command(
    epilog=epilog(
        "brokerage subscriptions replay crm --from start",
        "brokerage subscriptions replay crm --from now",
        exits=QUERY_EXITS,
    )
)
@_name
@click.option("--from", "start", type=StartOption(), required=True, help="Where it begins again.")
def replay(name: str, start: str) -> None:
    """Send NAME again what changed since a token, everything from `start`, or only what changes from `now` on."""

    async def begin(store: SubscriptionStore) -> Subscription:
        known = (await store.get(name)).subscription
        begins, is_events = _start_of(known.body, start), known.body is Body.EVENTS
        positions = await store.positions_now(known.resources) if begins == NOW and not is_events else {}
        begins = await store.last_event() if begins == NOW and is_events else begins
        return await store.edit(name, start=begins, positions=positions, starts=known.starts + 1)

    _with_store(begin)
    echo(f"{name} begins again from {start if start in {NOW, _START} else 'there'}")


@subscriptions.command(
    epilog=epilog(
        "brokerage subscriptions rotate crm", "brokerage subscriptions rotate crm --overlap 12h", exits=QUERY_EXITS
    )
)
@_name
@click.option(
    "--overlap", type=DurationOption(), default=OVERLAP, show_default="7d", help="How long both secrets sign."
)
@_print_json
def rotate(name: str, *, overlap: dt.timedelta, as_json: bool) -> None:
    """Replace the secret of NAME and print the new one. Until the overlap ends, deliveries have a signature of both."""
    until = dt.datetime.now(dt.UTC) + overlap

    async def replace(store: SubscriptionStore) -> Subscription:
        known = (await store.get(name)).subscription
        secret = new_secret(is_asymmetric=known.secret.startswith(ED25519_PREFIX))
        ends = int(until.timestamp() * 1000)
        return await store.edit(name, secret=secret, replaced_secret=known.secret, replaced_until=ends)

    secret = _with_store(replace).secret
    ends = f"by {until:%Y-%m-%d %H:%M} UTC" if overlap else "immediately"
    _print_secret(name, secret, f"The one before stops signing {ends}.", as_json=as_json)


@subscriptions.command(epilog=epilog("brokerage subscriptions delete crm", exits=QUERY_EXITS))
@_name
def delete(name: str) -> None:
    """Delete NAME; nothing more is sent to it."""
    _with_store(lambda store: store.delete(name))
    echo(f"deleted {name}")


@subscriptions.command(
    epilog=epilog("brokerage subscriptions test crm", exits="0 accepted, 1 not accepted, 2 usage or settings error")
)
@_name
def test(name: str) -> None:
    """Send NAME a signed delivery without data from this host, and print the answer.

    If it is accepted, what waits for NAME is attempted immediately.
    """
    subscription = _with_store(lambda store: store.get(name)).subscription
    with exit_on_error():
        settings = load_settings(DeliverSettings, os.environ)
    message = orjson.dumps({"type": "test", "subscription": name})

    async def send() -> Any:
        headers = signed_headers(subscription, f"test-{secrets.token_hex(8)}", message)
        async with Sender(settings.seconds, allow_private=settings.allow_private) as sender:
            return await sender.send(subscription.url, headers, message)

    answer = asyncio.run(send())
    if answer.is_accepted:
        _with_store(lambda store: store.edit(name))
    echo(f"{name}: {answer}", err=not answer.is_accepted)
    sys.exit(ExitCode.SUCCESS if answer.is_accepted else ExitCode.FAILED)


Result = TypeVar("Result")


def _with_store(work: Callable[[SubscriptionStore], Awaitable[Result]]) -> Result:
    async def run(client: AsyncElasticsearch, connection: ConnectionSettings) -> Result:
        return await work(SubscriptionStore(client, connection))

    try:
        return run_with_client(run, _TIMEOUT_SECONDS)
    except UnusableSubscription as error:
        fail(str(error))
