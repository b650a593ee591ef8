"""Runs the application in one process: listens, waits for the signal to stop, drains, closes."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import uvloop
from aiohttp import web

from service.app import create_app
from service.console.serving import operators_app
from service.health import DRAINING
from service.listening import CannotListen, listen
from service.memory import collect_seldom, keep_freed_memory
from service.protocol import ServiceRunner
from service.redaction import redact
from service.stopping import Stop
from service.telemetry.logs import set_up
from service.telemetry.tracing import tracing

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from cluster.connection import ConnectionSettings
    from service.listening import Listeners
    from service.settings import ServiceSettings

_LOOK_AGAIN_SECONDS = 0.2


def run(
    settings: ServiceSettings,
    connection: ConnectionSettings,
    on_ready: Callable[[], None] | None = None,
    listeners: Listeners | None = None,
    *,
    ready_first: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM, on sockets of its own where none are given; a second signal ends it at once.

    `on_ready` is called when it listens. With `ready_first` it listens only once it would be ready for requests.
    """
    redact()
    app = create_app(settings, connection, set_up(settings.log_format), tracing(os.environ))
    keep_freed_memory()
    opened = listeners or listen(settings)[0]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(app, settings, opened, on_ready or (lambda: None), ready_first=ready_first))


async def _serve(
    app: web.Application,
    settings: ServiceSettings,
    listeners: Listeners,
    on_ready: Callable[[], None],
    *,
    ready_first: bool,
) -> None:
    stop = Stop()
    async with AsyncExitStack() as stack:
        stack.callback(listeners.close)
        service = await _opened(stack, ServiceRunner(app, settings))
        opened = [(service, listeners.api)]
        if listeners.metrics:
            opened.append((await _opened(stack, ServiceRunner(operators_app(app), settings)), listeners.metrics))
        if ready_first and not await _ready(service, stop):
            return
        for runner, sockets in opened:
            await _listen(runner, sockets)
        on_ready()
        collect_seldom()
        await stop.told.wait()
        app[DRAINING].set()
        await asyncio.gather(*(_drain(runner, sockets, stop, settings.drain_seconds) for runner, sockets in opened))


async def _drain(runner: ServiceRunner, sockets: Sequence[socket.socket], stop: Stop, seconds: float) -> None:
    """Part from all clients, so that none loses a request by it."""
    runner.drain()
    if stop.is_replaced:
        await runner.stop_listening(sockets)
        await runner.finish(idle_seconds=seconds)
    else:
        # Whoever sends requests here has to see that it is unready before it is gone.
        await asyncio.sleep(seconds)
        await runner.stop_listening(sockets)
        await runner.finish()


async def _listen(runner: ServiceRunner, sockets: Sequence[socket.socket]) -> None:
    for opened in sockets:
        site = web.SockSite(runner, opened)
        try:
            await site.start()
        except OSError as error:
            # Somebody was quicker after it was bound.
            raise CannotListen(
                f"Cannot listen on {site.name.partition('://')[2]}: {error.strerror or error}."
            ) from error


async def _ready(runner: ServiceRunner, stop: Stop) -> bool:
    """Wait until it is ready for requests; return False when it is told to stop before that."""
    while not stop.told.is_set():
        if await runner.is_ready():
            return True
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    return False


async def _opened(stack: AsyncExitStack, runner: ServiceRunner) -> ServiceRunner:
    """Set a runner up; what it has opened is closed with the stack, even when it fails halfway."""
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    return runner
