"""Runs the application in one process: listens, waits for the signal to stop, drains, closes."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from multiprocessing import parent_process
from typing import TYPE_CHECKING

import uvloop
from aiohttp import web

from service.app import SERVICES, create_app
from service.health import DRAINING
from service.memory import collect_seldom, keep_freed_memory
from service.metrics import metrics_app
from service.protocol import ServiceRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.connection import ConnectionSettings
    from service.settings import ServiceSettings


class CannotListen(OSError):
    """An address is taken or is none of this machine; the text says which, and what to change."""


def run(settings: ServiceSettings, connection: ConnectionSettings, on_ready: Callable[[], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM."""
    keep_freed_memory()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, connection, on_ready))


async def _serve(
    settings: ServiceSettings, connection: ConnectionSettings, on_ready: Callable[[], None] | None
) -> None:
    stop = _stop_signal()
    app = create_app(settings, connection)
    async with AsyncExitStack() as stack:
        runner = await _opened(stack, ServiceRunner(app, settings))
        await _listen(
            web.TCPSite(runner, settings.host, settings.port, reuse_port=settings.workers > 1), "Choose another --port."
        )
        if settings.metrics_port:
            metrics = await _opened(stack, web.AppRunner(metrics_app(app[SERVICES].ledger), access_log=None))
            await _listen(
                web.TCPSite(metrics, settings.host, settings.metrics_port), "Choose another BROKERAGE_METRICS_PORT."
            )
        if on_ready is not None:
            on_ready()
        collect_seldom()
        await stop.wait()
        app[DRAINING].set()
        await asyncio.sleep(settings.drain_seconds)


async def _listen(site: web.TCPSite, remedy: str) -> None:
    try:
        await site.start()
    except OSError as error:
        address = site.name.partition("://")[2]
        raise CannotListen(f"Cannot listen on {address}: {error.strerror or error}. {remedy}") from error


async def _opened(stack: AsyncExitStack, runner: web.AppRunner) -> web.AppRunner:
    """Set a runner up; what it has opened is closed with the stack, even when it fails halfway."""
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    return runner


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if (parent := parent_process()) is not None:
        # A worker ends with its supervisor, even when that one was killed.
        loop.add_reader(parent.sentinel, stop.set)
    return stop
