"""The application in one process: listen, wait for a stop signal, drain, close."""

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import uvloop
from aiohttp import web

from cluster.connection import ConnectionSettings
from service.app import create_app
from service.console.routes import create_operators_app
from service.health.probes import DRAINING
from service.http.runner import ServiceRunner
from service.keys.redaction import install_redaction
from service.settings import ServiceSettings
from service.telemetry.logs import configure_logging
from service.telemetry.tracing import load_tracing
from service.workers.memory import retain_freed_memory, tune_garbage_collector
from service.workers.open_files import raise_file_limit
from service.workers.shutdown import ShutdownRequest
from service.workers.sockets import ListenError, ListenSockets, bind_sockets

_READINESS_POLL_SECONDS = 0.2


def run_server(
    settings: ServiceSettings,
    connection: ConnectionSettings,
    on_ready: Callable[[], None] | None = None,
    listeners: ListenSockets | None = None,
    *,
    ready_first: bool = False,
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends the process immediately.

    Binds its own sockets unless `listeners` are given. `on_ready` is called once it listens. With `ready_first` it
    listens only when it is ready for requests.
    """
    install_redaction()
    app = create_app(settings, connection, configure_logging(settings.log_format), load_tracing(os.environ))
    raise_file_limit(settings)
    retain_freed_memory()
    opened = listeners or bind_sockets(settings)[0]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(app, settings, opened, on_ready or (lambda: None), ready_first=ready_first))


async def _serve(
    app: web.Application,
    settings: ServiceSettings,
    listeners: ListenSockets,
    on_ready: Callable[[], None],
    *,
    ready_first: bool,
) -> None:
    stop = ShutdownRequest()
    async with AsyncExitStack() as stack:
        stack.callback(listeners.close)
        service = await _set_up(stack, ServiceRunner(app, settings.deadline_seconds))
        sites = [(service, listeners.api)]
        if listeners.metrics:
            sites.append(
                (
                    await _set_up(stack, ServiceRunner(create_operators_app(app), settings.deadline_seconds)),
                    listeners.metrics,
                )
            )
        if ready_first and not await _wait_ready(service, stop):
            return
        for runner, sockets in sites:
            await _listen(runner, sockets)
        on_ready()
        tune_garbage_collector()
        await stop.requested.wait()
        app[DRAINING].set()
        await asyncio.gather(*(_drain(runner, sockets, stop, settings.drain_seconds) for runner, sockets in sites))


async def _drain(
    runner: ServiceRunner, sockets: Sequence[socket.socket], stop: ShutdownRequest, seconds: float
) -> None:
    """Close all connections without losing a request."""
    runner.drain()
    if stop.is_replaced:
        await runner.stop_listening(sockets)
        await runner.wait_closed(idle_seconds=seconds)
    else:
        # Load balancers have to see that it is unready before it stops listening.
        await asyncio.sleep(seconds)
        await runner.stop_listening(sockets)
        await runner.wait_closed()


async def _listen(runner: ServiceRunner, sockets: Sequence[socket.socket]) -> None:
    for bound in sockets:
        site = web.SockSite(runner, bound)
        try:
            await site.start()
        except OSError as error:
            # Another process started to listen after this socket was bound.
            raise ListenError(
                f"Cannot listen on {site.name.partition('://')[2]}: {error.strerror or error}."
            ) from error


async def _wait_ready(runner: ServiceRunner, stop: ShutdownRequest) -> bool:
    """Wait until it is ready for requests; return False if a shutdown is requested first."""
    while not stop.requested.is_set():
        if await runner.is_ready():
            return True
        await asyncio.sleep(_READINESS_POLL_SECONDS)
    return False


async def _set_up(stack: AsyncExitStack, runner: ServiceRunner) -> ServiceRunner:
    """Set a runner up; the stack cleans it up, even after a failure halfway."""
    stack.push_async_callback(runner.cleanup)
    await runner.setup()
    return runner
