"""A service in front of a real installation, and what may happen to a key while it reads."""

import asyncio
import datetime as dt
import re
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import pytest
from aiohttp import ClientSession, web

import service.changes.snapshot
from mappings import COMPANY, LISTING, RESOURCES
from service.app import create_app
from service.http.connection import ServiceRunner
from service.keys.api_key import ApiKey
from service.keys.store import KeyGrant, KeyStore
from service.publishing.publisher import publish
from service.publishing.target import TargetFolder
from service.services import SERVICES, Services
from tests.exports.conftest import Silence
from tests.feed.conftest import SETTINGS
from tests.feed.feed_client import company
from tests.indexer.conftest import Bench, Lines, module_bench
from tests.internals import send_by, sending_connections
from tests.records import envelope
from tests.service_settings import with_settings
from tests.waiting import until

__all__ = ["module_bench"]

LISTINGS = 60
# Of the buffers between the service and a client, so that a body does not fit into them.
BUFFER_BYTES = 16_384
_REQUEST_ID = re.compile(rb'"request_id":"\w+"')


def listing(at: int, price: int = 1) -> dict[str, Any]:
    """Return a listing of company a; every other one opted out of being shown."""
    record = {
        "PlatformListingId": f"L{at:02}",
        "ListPrice": price,
        "InternetEntireListingDisplayYN": bool(at % 2),
        "PublicRemarks": secrets.token_hex(10_000),  # compresses to half of it
    }
    return envelope(
        LISTING, record, platform_company_id="a", updated_at=f"2026-01-03T00:{price // 60:02}:{price % 60:02}Z"
    )


@dataclass
class Held:
    """What waits for `until`: requests to the index of listings, or searches of snapshots after the next `pages`."""

    until: asyncio.Event
    waiting: int = 0
    pages: float = inf


@dataclass
class Stage:
    """A service with the connections of its own and small buffers, and its installation."""

    bench: Bench
    store: KeyStore
    services: Services
    held: Held
    port: int
    http: ClientSession
    price: int = 1

    async def key(self) -> str:
        """Create a key of company a that may read everything."""
        return (await self.store.create(KeyGrant("a", companies=("a",), rate=None))).reveal()

    async def answer(self, key: str, path: str) -> tuple[int, bytes]:
        """Return status and body of a response, without the id of the request."""
        async with self.http.get(f"http://127.0.0.1:{self.port}{path}", headers={"x-api-key": key}) as answer:
            return answer.status, _REQUEST_ID.sub(b'"request_id":""', await answer.read())

    async def knows(self, key: str, is_known: Callable[[ApiKey | None], object]) -> None:
        """Wait until the service has read a change of a key."""
        await until(lambda: is_known(self.services.keys.recall(key[3:13])))

    def is_sending(self, key: str) -> bool:
        """Whether a response to the key is being sent."""
        return any(
            each.key_id == key[3:13] and each.is_sending for each in sending_connections(self.services.limits.unread)
        )

    async def publish_change(self) -> None:
        """Publish a change of a listing."""
        self.price += 1
        assert (await self.bench.update({LISTING: [listing(1, self.price)]})).exit_code == 0


@pytest.fixture(scope="module")
async def stage(module_bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Sixty listings of some 20 KB, in pages, a snapshot of six pages and a published file."""
    folder = tmp_path_factory.mktemp("published")
    lines = {COMPANY: [company("a"), company("b")], LISTING: map(listing, range(LISTINGS))}
    empty: Lines = dict.fromkeys(RESOURCES, ())
    assert (await module_bench.build({**empty, **lines})).exit_code == 0
    settings = with_settings(
        SETTINGS, revocation_seconds=1.0, failures_per_minute=0, refusals_per_minute=0, exports=str(folder)
    )
    await publish(module_bench.connection, settings, TargetFolder(folder), ("a",), Silence())
    store = KeyStore(module_bench.client, module_bench.connection.keys_index)
    await store.create(KeyGrant("first", all_companies=True))
    app = create_app(settings, module_bench.connection)
    page_size, service.changes.snapshot.PAGE_SIZE = service.changes.snapshot.PAGE_SIZE, LISTINGS // 6
    runner = ServiceRunner(app, settings)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        async with ClientSession() as http:
            services = app[SERVICES]
            held = _hold_searches(services, module_bench.connection.alias(LISTING))
            yield Stage(module_bench, store, services, held, listener.getsockname()[1], http)
    finally:
        service.changes.snapshot.PAGE_SIZE = page_size
        await runner.cleanup()


def _hold_searches(services: Services, alias: str) -> Held:
    """Let requests to an index wait for an event, as for a busy Elasticsearch."""
    held = Held(asyncio.Event())
    held.until.set()

    async def wait_and_send(method: str, target: str, *sent: Any) -> tuple[int, bytes]:
        is_page = target.startswith("/_search")
        held.pages -= is_page
        if held.pages < 0 if is_page else held.pages == inf and f"/{alias}/_" in target:
            held.waiting += 1
            await held.until.wait()
        return await send(method, target, *sent)

    send = send_by(services.engine, wait_and_send)
    return held


Change = Callable[[Stage, str], Awaitable[object]]


def changed(**members: Any) -> Change:
    """Change members of a key's document."""

    async def change(stage: Stage, key_id: str) -> None:
        index = stage.bench.connection.keys_index
        await stage.bench.client.update(index=index, id=key_id, doc=members, refresh=True)

    return change


async def deleted(stage: Stage, key_id: str) -> None:
    """Delete a key's document."""
    await stage.bench.client.delete(index=stage.bench.connection.keys_index, id=key_id, refresh=True)


# What may happen, and whether the service knows it.
WITHDRAWALS: dict[str, tuple[Change, Callable[[ApiKey | None], object]]] = {
    "revoked": (lambda stage, key: stage.store.revoke(key), lambda key: key is not None and key.revoked),
    "expired": (
        lambda stage, key: stage.store.expire(key, dt.datetime.now(dt.UTC)),
        lambda key: key is not None and key.expires,
    ),
    "deleted": (deleted, lambda key: key is None),
    "replaced": (changed(digest="0" * 64), lambda key: key is not None and key.digest == "0" * 64),
    "scope": (changed(companies=["b"]), lambda key: key is not None and key.companies == ("b",)),
    "fields": (changed(fields=[]), lambda key: key is not None and key.fields == ()),
    "licence": (changed(display="idx"), lambda key: key is not None and key.display),
}
HARMLESS: dict[str, tuple[Change, Callable[[ApiKey | None], object]]] = {
    "read again": (changed(note="read again", rate=500), lambda key: key is not None and key.note),
    "more companies": (changed(companies=["a", "b"]), lambda key: key is not None and len(key.companies) == 2),
    "rotated": (
        lambda stage, key: stage.store.rotate(key, dt.timedelta(days=1)),
        lambda key: key is not None and key.successor,
    ),
}
