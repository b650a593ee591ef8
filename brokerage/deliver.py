"""`brokerage deliver`: sends changes to subscriptions, together with other processes of it."""

import asyncio
import math
import os
import secrets
import time
from collections import Counter
from functools import partial

import rich_click as click
import uvloop
from elasticsearch import ApiError, AsyncElasticsearch, TransportError

from brokerage.command_runs import exit_on_error
from brokerage.help import epilog
from brokerage_feed.terminal import StoppedBySignal, cancel_on_signal, echo
from cluster.connection import ConnectionSettings, connect
from cluster.settings import load_settings
from indexer.errors import LockedError
from indexer.lock import (
    HEARTBEAT_SECONDS,
    HOLDER_TIMEOUT_SECONDS,
    DistributedLock,
    LockHolder,
    LockStore,
    LockWait,
    ignore_wait,
)
from service.capabilities import load_service_settings
from service.deliver.process import SHARES, Deliveries, open_deliveries, wait_for_index
from service.deliver.settings import DeliverSettings
from service.keys.api_key import install_redaction
from service.telemetry.logs import configure_logging

_TIMEOUT_SECONDS = 10.0
# Between the end of a delivery and the moment from which another process may have taken the share over.
_MARGIN_SECONDS = 5.0
# A process that asks for a share renews that about every second; one that was given up is left to it for a while.
_GIVE_SECONDS = 5.0


class Shares:
    """The shares of this process: the lock of each is acquired, kept and given up.

    A process takes every share that is free. It asks another one for a share while that has at least two more than it
    has itself; who is asked gives up one share at a time. So all soon have the same number, give or take one.
    """

    def __init__(self, client: AsyncElasticsearch, index: str, deliveries: Deliveries, longest_delivery: float) -> None:
        """Keep the locks in `index`. A delivery may be sent for `longest_delivery` seconds."""
        self._client, self._index, self._deliveries = client, index, deliveries
        self._lease_seconds = HOLDER_TIMEOUT_SECONDS - longest_delivery - _MARGIN_SECONDS
        self._holders: dict[int, tuple[str, int, str]] = {}  # of the shares of other processes
        self._own: set[int] = set()
        self._gave_at = 0.0

    async def run(self) -> None:
        """Keep them until cancelled."""
        async with asyncio.TaskGroup() as group:
            for share in range(SHARES):
                group.create_task(self._keep_one(share))

    async def _keep_one(self, share: int) -> None:
        store = LockStore(self._client, self._index, f"share-{share}")
        while True:
            try:
                wait = LockWait(store, secrets.token_hex(8), math.inf, ignore_wait, partial(self._asks, share))
                lock = DistributedLock(store, await wait.acquire())
            except (ApiError, TransportError):
                await asyncio.sleep(1.0)
                continue
            try:
                await self._hold(share, lock)
            finally:
                self._own.discard(share)
                await self._deliveries.give_up(share)
                await lock.release()
            await asyncio.sleep(_GIVE_SECONDS)

    async def _hold(self, share: int, lock: DistributedLock) -> None:
        """Deliver the share until its lock is lost, or another process is to have it."""
        held_until = time.monotonic() + self._lease_seconds
        self._own.add(share)
        self._holders.pop(share, None)
        self._deliveries.take(share, lambda: time.monotonic() < held_until)
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            renewed_at = time.monotonic()
            try:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    await lock.verify()
                    is_requested = await lock.is_requested()
            except LockedError:
                return
            except (ApiError, TransportError, TimeoutError):
                continue
            held_until = renewed_at + self._lease_seconds
            if is_requested and renewed_at >= self._gave_at + _GIVE_SECONDS:
                self._gave_at = renewed_at
                return

    def _asks(self, share: int, holder: LockHolder) -> bool:
        process = holder.host, holder.pid, holder.incarnation
        self._holders[share] = process
        return Counter(self._holders.values())[process] >= len(self._own) + 2


@click.command(
    epilog=epilog(
        "brokerage deliver",
        exits="0 stopped by a signal, 2 usage or settings error, 3 Elasticsearch unavailable",
    )
)
def deliver() -> None:
    """Push changes to subscriptions until Ctrl-C, at least once and in order.

    Several processes share the work; if one is killed, others take over, at once on the same host and after half a
    minute on another. See `brokerage subscriptions`.
    """
    with exit_on_error():
        try:
            uvloop.run(_run())
        except StoppedBySignal:
            echo("Stopped: all that was accepted is stored.", err=True)


async def _run() -> None:
    with cancel_on_signal():
        connection = load_settings(ConnectionSettings, os.environ)
        connection.require_url()
        settings = load_service_settings(os.environ)
        install_redaction()
        configure_logging(settings.log_format)
        async with (
            connect(connection, connections=SHARES, timeout=_TIMEOUT_SECONDS) as client,
            open_deliveries(connection, settings) as deliveries,
        ):
            await wait_for_index(deliveries.services, echo)
            shares = Shares(client, connection.deliveries_index, deliveries, settings.of(DeliverSettings).seconds)
            echo("delivering; Ctrl-C stops")
            async with asyncio.TaskGroup() as group:
                group.create_task(shares.run())
                group.create_task(deliveries.run())
