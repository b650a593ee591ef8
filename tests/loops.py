"""Scenarios on either event loop: the default one and the one that the service runs on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    Run = Callable[[Coroutine[Any, Any, Any]], Any]

_LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=_LOOPS)
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a scenario to its end, on each loop in turn."""
    with asyncio.Runner(loop_factory=_LOOPS[request.param]) as runner:
        yield runner.run
