"""`brokerage deliver`: a courier for each subscription of the shares that this process holds.

Subscriptions are divided into shares by their ids. A share is delivered by the process that holds its lock.
"""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from typing import Any, NamedTuple

from aiohttp import web

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.deliver.courier import Courier, Superseded
from service.deliver.sender import Sender
from service.deliver.settings import DeliverSettings
from service.deliver.subscriptions import MAX_SUBSCRIPTIONS, ProgressStore, Subscription, decode_subscription
from service.errors import ApiError
from service.search.cached_value import CacheAges, CachedValue
from service.search.shared_state import DocumentSet, DocumentSetReader
from service.services import SERVICES, Services
from service.settings import ServiceSettings

SHARES = 8
_LOOK_SECONDS = 1.0
_BEAT_SECONDS = 10.0
_WAIT_FOR_INDEX_SECONDS = 5.0
# Of what every request of the service reads, in a process that sends what has changed within a second or two.
_FRESH_SECONDS = 0.5
_TURN_SECONDS = 60.0

_log = logging.getLogger("service")


def share_of(subscription_id: str) -> int:
    return zlib.crc32(subscription_id.encode()) % SHARES


class _Running(NamedTuple):
    subscription: Subscription
    courier: Courier
    task: asyncio.Task[None]


class Deliveries:
    """The couriers of one process."""

    def __init__(self, services: Services, sender: Sender) -> None:
        connection = services.connection
        self.services, self._sender = services, sender
        self._store = ProgressStore(services.engine, connection.deliveries_index)
        self._reader: DocumentSetReader[Subscription | None] = DocumentSetReader(
            services.engine, connection.subscriptions_index, decode_subscription, "id"
        )
        self._subscriptions: CachedValue[DocumentSet[Subscription | None]] = CachedValue(
            self._read_subscriptions, CacheAges(_FRESH_SECONDS, 2 * _FRESH_SECONDS)
        )
        self._shares: dict[int, Callable[[], bool]] = {}
        self._running: dict[str, _Running] = {}

    def take(self, share: int, holds: Callable[[], bool]) -> None:
        """Deliver a share from now on, as long as `holds` says so."""
        self._shares[share] = holds

    async def give_up(self, share: int) -> None:
        """Stop delivering a share; return once nothing of it is being sent."""
        self._shares.pop(share, None)
        await self._stop([name for name in self._running if share_of(name) == share])

    async def run(self) -> None:
        """Keep a courier for each subscription that is not paused, until cancelled."""
        beating = asyncio.create_task(self._beat())
        try:
            while True:
                with suppress(ApiError):
                    await self._match_couriers((await self._subscriptions.get_renewed()).by_id)
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            beating.cancel()
            await self._stop([*self._running])

    async def _match_couriers(self, subscriptions: Mapping[str, Subscription | None]) -> None:
        wanted = {
            name: subscription
            for name, subscription in subscriptions.items()
            if subscription is not None and not subscription.is_paused and share_of(name) in self._shares
        }
        ended = [
            name
            for name, running in self._running.items()
            if running.task.done() or wanted.get(name) != running.subscription
        ]
        await self._stop(ended)
        for name in wanted.keys() - self._running.keys():
            subscription, holds = wanted[name], self._shares.get(share_of(name))
            if holds is not None:  # it may have been given up meanwhile
                courier = Courier(self.services, self._sender, self._store, subscription, holds)
                self._running[name] = _Running(subscription, courier, asyncio.create_task(_run(courier, subscription)))

    async def _stop(self, names: list[str]) -> None:
        stopped = [self._running.pop(name) for name in names if name in self._running]
        await asyncio.gather(*(running.courier.settled() for running in stopped if not running.task.done()))
        for running in stopped:
            running.task.cancel()
        if stopped:
            await asyncio.wait([running.task for running in stopped])

    async def _read_subscriptions(self) -> DocumentSet[Subscription | None]:
        return await self._reader.read(self._subscriptions.current)

    async def _beat(self) -> None:
        while True:
            if self._shares:
                with suppress(ApiError):
                    await self._store.beat()
            await asyncio.sleep(_BEAT_SECONDS)


async def _run(courier: Courier, subscription: Subscription) -> None:
    try:
        await courier.run()
    except Superseded:
        _log.info("%s: another process delivers, or it was deleted.", subscription.name)
    except Exception:
        # The next look starts it again.
        _log.exception("the deliveries of %s failed and start again", subscription.name)


@asynccontextmanager
async def open_deliveries(
    connection: ConnectionSettings, settings: ServiceSettings, **options: Any
) -> AsyncIterator[Deliveries]:
    """Open the services of a worker, without its port, and what sends deliveries; `options` are those of the app."""
    own = settings.of(DeliverSettings)
    # One process reads for many subscriptions, which may have the same key: each waits for its turn.
    patient = replace(settings, key_concurrency=0, queue=MAX_SUBSCRIPTIONS, queue_seconds=_TURN_SECONDS)
    quick = replace(patient, fresh_seconds=_FRESH_SECONDS, stale_seconds=2 * _FRESH_SECONDS)
    runner = web.AppRunner(app := create_app(quick, connection, **options))
    await runner.setup()
    try:
        async with Sender(own.seconds, allow_private=own.allow_private) as sender:
            yield Deliveries(app[SERVICES], sender)
    finally:
        await runner.cleanup()


async def wait_for_index(services: Services, note: Callable[[str], None]) -> None:
    """Return once there is an index of deliveries, which the first subscription creates."""
    index, is_noted = services.connection.deliveries_index, False
    while True:
        with suppress(ApiError):
            status, _ = await services.engine.request("POST", f"/{index}/_search?size=0", b"{}")
            if status != HTTPStatus.NOT_FOUND:
                return
            if not is_noted:
                note("There are no subscriptions yet: `brokerage subscriptions create` makes the first.")
                is_noted = True
        await asyncio.sleep(_WAIT_FOR_INDEX_SECONDS)
