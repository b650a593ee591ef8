"""Runs the application in one process: listens, waits for the signal to stop, drains, closes."""

from __future__ import annotations

import asyncio
import signal
from multiprocessing import parent_process
from typing import TYPE_CHECKING

import uvloop
from aiohttp import web

from service.app import create_app
from service.health import DRAINING
from service.protocol import ServiceRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.connection import ConnectionSettings
    from service.settings import ServiceSettings


def run(settings: ServiceSettings, connection: ConnectionSettings, on_ready: Callable[[], None] | None = None) -> None:
    """Serve until SIGINT or SIGTERM."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, connection, on_ready))


async def _serve(
    settings: ServiceSettings, connection: ConnectionSettings, on_ready: Callable[[], None] | None
) -> None:
    stop = _stop_signal()
    app = create_app(settings, connection)
    runner = ServiceRunner(app, settings)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.host, settings.port, reuse_port=settings.workers > 1).start()
        if on_ready is not None:
            on_ready()
        await stop.wait()
        app[DRAINING].set()
        await asyncio.sleep(settings.drain_seconds)
    finally:
        await runner.cleanup()


def _stop_signal() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if (parent := parent_process()) is not None:
        # A worker ends with its supervisor, even when that one was killed.
        loop.add_reader(parent.sentinel, stop.set)
    return stop
