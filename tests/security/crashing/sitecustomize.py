"""Faults for `brokerage serve` as a process: with this folder on PYTHONPATH every process of it imports this first.

All loggers write everything, and a header asks for a crash whose text holds the whole request. A second header value
ends the process by an error once it is stopped.
"""

import asyncio
import gc
import logging
import threading
import warnings
from collections.abc import Callable
from typing import Any

from aiohttp import web

import service.workers.worker as server
from service.operation import Operation

CRASH = "x-crash"

logging.basicConfig(level=logging.DEBUG)
_log = logging.getLogger("crashing")
_seen: list[str] = []


class _Unraisable:
    def __init__(self, text: str) -> None:
        self.text = text

    def __del__(self) -> None:
        raise ValueError(self.text)


def _fail(text: str) -> None:
    raise RuntimeError(text)


async def _fail_later(text: str) -> None:
    _fail(text)


def _in_task(text: str) -> None:
    task = asyncio.create_task(_fail_later(text))
    task.add_done_callback(lambda _: asyncio.get_running_loop().call_soon(gc.collect))


def _in_thread(text: str) -> None:
    thread = threading.Thread(target=_fail, args=(text,))
    thread.start()
    thread.join()


def _in_log(text: str) -> None:
    _log.debug("%s", text)
    _log.warning("%r", {"request": text, "headers": {"x-api-key": text}}, stack_info=True)
    _log.error("%d", text)


CRASHES: dict[str, Callable[[str], object]] = {
    "handler": _fail,
    "task": _in_task,
    "callback": lambda text: asyncio.get_running_loop().call_soon(_fail, text),
    "thread": _in_thread,
    "finalizer": _Unraisable,
    "warning": lambda text: warnings.warn(text, ResourceWarning, stacklevel=2),
    "log": _in_log,
    "stop": _seen.append,
}
_respond = Operation.respond
_serve = server._serve


async def _crashing(self: Operation, route: str, request: web.Request) -> web.Response:
    if (kind := request.headers.get(CRASH)) is not None:
        CRASHES[kind](f"{request!r} {request.url} {request.rel_url!r} {dict(request.headers)} {request.raw_headers!r}")
    return await _respond(self, route, request)


async def _ending(*args: Any, **kwargs: Any) -> None:
    await _serve(*args, **kwargs)
    if _seen:
        _fail(_seen[-1])


Operation.respond = _crashing  # type: ignore[method-assign]
server._serve = _ending
