"""One worker process: its server, its shutdown, its memory and open files."""

import asyncio
import ctypes
import errno
import gc
import logging
import multiprocessing
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from dataclasses import dataclass, replace
from multiprocessing import parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

import uvloop
from aiohttp import web

from cluster.connection import ConnectionSettings
from service.app import create_app, create_operators_app, load_tracing
from service.health.monitor import DRAINING
from service.http.connection import ServiceRunner
from service.keys.api_key import install_redaction
from service.settings import ListenError, ServiceSettings
from service.telemetry.logs import configure_logging

_OBJECTS_BETWEEN_COLLECTIONS = 20_000
# From malloc.h.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# Larger buffers are mapped and unmapped each time: those of pages of more than 250 listings, which also take turns
# (`service.limits.admission`), would leave gaps that smaller ones fill, and a worker under attack would keep more free
# memory than it uses (decision 26).
_MMAP_THRESHOLD_BYTES = 2_097_152
# Free memory above this is returned to the system.
_TRIM_THRESHOLD_BYTES = 134_217_728


def retain_freed_memory() -> bool:
    """Reuse freed memory within the process; return False if the C library does not support it.

    By default, glibc returns freed memory to the system, which clears it again for the next allocation: 440 page faults
    for a page of 200 listings, a third of the CPU time that the service spends on it (docs/performance.md).
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(
        set_option(_MMAP_THRESHOLD, _MMAP_THRESHOLD_BYTES) and set_option(_TRIM_THRESHOLD, _TRIM_THRESHOLD_BYTES)
    )


def tune_garbage_collector() -> None:
    """Exclude startup objects from cycle collection, and collect the others less often.

    A page of 1,000 listings creates more objects than the default threshold, none of them in a cycle.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)


# Connections to Elasticsearch, idle and refused clients, log files, listening sockets.
_OTHER_FILES = 512

_log = logging.getLogger("service")


def raise_file_limit(settings: ServiceSettings) -> int:
    """Raise the soft limit to the hard one and return it; warn if it is too low for all who may wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    needed = (
        settings.connections
        + sum(of_capability.open_files for of_capability in settings.of_capabilities)
        + _OTHER_FILES
    )
    if hard != resource.RLIM_INFINITY and hard < needed:
        _log.warning(
            "At most %d open files are allowed, and the requests that a worker may have at a time need %d. Raise the "
            "hard limit (`ulimit -Hn`), or lower their settings.",
            hard,
            needed,
        )
    return hard


# Sent to a worker that has been replaced: another listens on its sockets, so it closes them before it drains.
REPLACED_SIGNAL = signal.SIGUSR1
# Shells add this to the number of the signal that ended a command.
SIGNAL_EXIT_CODE_OFFSET = 128


class ShutdownRequest:
    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.is_replaced = False
        loop, parent = asyncio.get_running_loop(), parent_process()
        if parent is None:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, self._on_signal, number)
            return
        # The service manager and the supervisor may both send it, so a second one does not force an exit.
        loop.add_signal_handler(signal.SIGTERM, self.requested.set)
        loop.add_signal_handler(REPLACED_SIGNAL, self._on_replaced)
        # A worker ends with its supervisor, even if that was killed.
        loop.add_reader(parent.sentinel, self._on_supervisor_exit, parent.sentinel)

    def _on_signal(self, number: signal.Signals) -> None:
        if self.requested.is_set():
            os._exit(SIGNAL_EXIT_CODE_OFFSET + number)
        self.requested.set()

    def _on_replaced(self) -> None:
        self.is_replaced = True
        self.requested.set()

    def _on_supervisor_exit(self, sentinel: int) -> None:
        asyncio.get_running_loop().remove_reader(sentinel)
        self.requested.set()


# Errors of a machine without IPv6, where a name such as localhost may still resolve to an IPv6 address.
_UNAVAILABLE_ADDRESS = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


_METRICS_REMEDY = "BROKERAGE_METRICS_PORT or BROKERAGE_METRICS_HOST"


@dataclass(frozen=True)
class ListenSockets:
    api: tuple[socket.socket, ...]
    metrics: tuple[socket.socket, ...] = ()

    @property
    def port(self) -> int:
        """The port of the API; the assigned one if 0 was configured."""
        return int(self.api[0].getsockname()[1])

    def close(self) -> None:
        """Close this process's handles; a socket stays open while another process has one."""
        _close((*self.api, *self.metrics))


def bind_sockets(settings: ServiceSettings) -> list[ListenSockets]:
    """Bind the sockets of every worker, all to the same port of the API; raise ListenError.

    They accept no connections until a worker listens.
    """
    if not settings.share_port:
        # Otherwise a second service would share the requests of the first.
        _close(_open(settings.host, settings.port, "--port", probe=True))
    with ExitStack() as stack:
        listeners: list[ListenSockets] = []
        for slot in range(settings.workers):
            listeners.append(bind_worker_sockets(slot, settings))
            stack.callback(listeners[-1].close)
            settings = replace(settings, port=listeners[-1].port)
        stack.pop_all()
    return listeners


def bind_worker_sockets(slot: int, settings: ServiceSettings) -> ListenSockets:
    """Bind the sockets of one worker; slots are numbered from 0.

    Each worker has its own socket with SO_REUSEPORT, so that the kernel distributes connections. Of 64 simultaneous
    connections, one worker got up to 64 with a shared socket, and at most 40 with separate ones.
    """
    api = _open(settings.host, settings.port, "--port", share=settings.workers > 1 or settings.share_port)
    try:
        return ListenSockets(api, _metrics(slot, settings))
    except ListenError:
        _close(api)
        raise


def _metrics(slot: int, settings: ServiceSettings) -> tuple[socket.socket, ...]:
    if not settings.metrics_port:
        return ()
    # Workers share the port of the API, but each has its own metrics port.
    host, port, remedy = settings.metrics_host, settings.metrics_port + slot, _METRICS_REMEDY
    if not settings.share_port:
        _close(_open(host, port, remedy, probe=True))
    return _open(host, port, remedy, share=settings.share_port)


def _open(host: str, port: int, remedy: str, *, share: bool = False, probe: bool = False) -> tuple[socket.socket, ...]:
    try:
        with ExitStack() as stack:
            opened = tuple(map(stack.enter_context, _bind_all(host, port, share=share, probe=probe)))
            stack.pop_all()
    except OSError as error:
        reason = error.strerror if isinstance(error, socket.gaierror) else os.strerror(error.errno or 0)
        shown = f"[{host}]" if ":" in host else host or "*"
        raise ListenError(f"Cannot listen on {shown}:{port}: {reason}. Choose another {remedy}.") from error
    return opened


def _bind_all(host: str, port: int, *, share: bool, probe: bool) -> Iterator[socket.socket]:
    addresses = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    failure: OSError | None = None
    count = 0
    for family, _, _, _, (name, _, *rest) in dict.fromkeys(addresses):
        try:
            bound = _bind(family, (name, port, *rest), share=share, probe=probe)
        except OSError as error:
            if error.errno not in _UNAVAILABLE_ADDRESS:
                raise
            failure = error
            continue
        count, port = count + 1, bound.getsockname()[1]
        yield bound
    if not count and failure is not None:
        raise failure


def _bind(family: int, address: tuple[str | int, ...], *, share: bool, probe: bool) -> socket.socket:
    with ExitStack() as stack:
        opened = stack.enter_context(socket.socket(family, socket.SOCK_STREAM))
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if share:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        opened.bind(address)
        if probe:
            # Fails if another process has bound the port and is about to listen.
            opened.listen()
        opened.settimeout(0)
        stack.pop_all()
    return opened


def _close(sockets: tuple[socket.socket, ...]) -> None:
    for opened in sockets:
        opened.close()


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
    app = create_app(settings, connection, configure_logging(settings.log_format), load_tracing(settings, os.environ))
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
        service = await _set_up(stack, ServiceRunner(app, settings))
        sites = [(service, listeners.api)]
        if listeners.metrics:
            sites.append(
                (
                    await _set_up(stack, ServiceRunner(create_operators_app(app), settings)),
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


# A fresh interpreter for each worker: it inherits no state or signal handlers, and imports the code from disk again.
_CONTEXT = multiprocessing.get_context("spawn")


class WorkerExited(Exception):
    """A worker exited; the text gives the exit code or signal."""


def _work(serve: Callable[..., None], pipe: Connection) -> None:
    def notify() -> None:
        pipe.send_bytes(b"listening")
        pipe.close()

    try:
        serve(on_ready=notify)
    except Exception:
        # `multiprocessing` would print it to standard error without masking.
        _log.critical("The worker ends because of an unexpected error.", exc_info=True)
        sys.exit(1)


class WorkerProcess:
    """The supervisor's handle on a worker, which calls `serve` (`run_server`); create it inside the event loop."""

    def __init__(self, slot: int, serve: Callable[..., None]) -> None:
        self.slot = slot
        loop = asyncio.get_running_loop()
        self._exit_code: asyncio.Future[int] = loop.create_future()
        self._listening: asyncio.Future[bytes] = loop.create_future()
        self._pipe, worker_end = _CONTEXT.Pipe(duplex=False)
        self._process = _start(serve, worker_end)
        self._pid = self._process.pid or 0
        self.started_at = loop.time()
        loop.add_reader(self._process.sentinel, self._on_exit)
        loop.add_reader(self._pipe.fileno(), self._on_listening)

    def __str__(self) -> str:
        return f"worker {self.slot} (process {self._pid})"

    @property
    def is_alive(self) -> bool:
        return not self._exit_code.done()

    async def wait_listening(self) -> None:
        """Wait until it listens; raise WorkerExited if it exits first."""
        await asyncio.wait((self._listening, self._exit_code), return_when=asyncio.FIRST_COMPLETED)
        if not self.is_alive:
            raise WorkerExited(await self.wait_exit())

    async def wait_exit(self) -> str:
        """Wait until it exits; return its exit code or signal as text."""
        code = await asyncio.shield(self._exit_code)
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def retire(self) -> None:
        self._send(REPLACED_SIGNAL)

    def stop(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        if self.is_alive:
            # It may have exited before the loop noticed.
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        self._exit_code.set_result(self._process.exitcode or 0)
        self._process.close()

    def _on_listening(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe.fileno())
        # The pipe also becomes readable if the worker exits before it listens.
        with suppress(EOFError):
            self._listening.set_result(self._pipe.recv_bytes())
        self._pipe.close()


def _start(serve: Callable[..., None], pipe: Connection) -> BaseProcess:
    process = _CONTEXT.Process(target=_work, args=(serve, pipe), daemon=True)
    # If `process.start` started it, it would unblock the signals that are blocked below.
    resource_tracker.ensure_running()
    # A terminal sends these to the whole group. Workers ignore them: the supervisor decides what they mean.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        pipe.close()
    return process
