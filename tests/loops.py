"""Scenarios on either event loop: the default one and the one that the service runs on."""

import asyncio
import functools
import inspect
import sys
from asyncio.selector_events import _SelectorSocketTransport  # type: ignore[attr-defined]
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

import pytest
import uvloop

Run = Callable[[Coroutine[Any, Any, Any]], Any]

_LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=_LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a scenario to its end, on each loop in turn."""
    with asyncio.Runner(loop_factory=_LOOPS[request.param]) as runner:
        yield runner.run


def on_each_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turn a coroutine function into a test that runs to its end on each loop in turn."""
    given = inspect.signature(test)

    @functools.wraps(test)
    def on_loop(*, run: Run, **arguments: Any) -> None:
        run(test(**arguments))

    added = inspect.Parameter("run", inspect.Parameter.KEYWORD_ONLY)
    on_loop.__signature__ = given.replace(parameters=[*given.parameters.values(), added])  # type: ignore[attr-defined]
    return on_loop


def pause_after_writelines() -> None:
    """Let asyncio limit what waits to be sent, in Pythons with CVE-2024-12254 (3.12.0 to 3.12.8, and 3.13.0).

    There `writelines` never pauses its caller. The service uses uvloop, but most tests run on the default loop.
    """
    if sys.version_info >= (3, 13, 1):
        return
    write = _SelectorSocketTransport.writelines

    def write_and_pause(self: Any, parts: Iterable[bytes]) -> None:
        write(self, parts)
        self._maybe_pause_protocol()

    _SelectorSocketTransport.writelines = write_and_pause
