"""A build's handle on one loader process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from asyncio.subprocess import Process
from contextlib import suppress
from typing import cast

from indexer.build.parallel.messages import (
    LoaderSettings,
    LoadOrder,
    RangeFailure,
    RangeOrder,
    RangeOutcome,
    packed,
    received,
)
from indexer.source.line_ranges import LineRange

COMMAND = (sys.executable, "-P", "-m", "indexer.build.parallel.loader_main")


class LoaderExited(Exception):
    """A loader process ended before it answered; the text gives its exit code or signal."""


class LoaderProcess:
    """A loader process, which loads ranges of the resource that it was last ordered to load."""

    def __init__(self, process: Process) -> None:
        """Begin to receive answers."""
        self._process = process
        self._orders = cast("asyncio.StreamWriter", process.stdin)
        self._answers = dict[int, asyncio.Future[RangeOutcome]]()
        self._number = 0
        self._receiving = asyncio.create_task(self._receive())
        self.order: LoadOrder | None = None

    @classmethod
    async def started(cls, settings: LoaderSettings) -> LoaderProcess:
        """Start a process. In a session of its own, it gets no signal of the terminal: its parent ends it."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started = cls(process)
        await started._send(settings)
        return started

    @property
    def is_running(self) -> bool:
        """Whether the process can still answer."""
        return not self._receiving.done()

    async def begin(self, order: LoadOrder) -> None:
        """Load the ranges that follow as ordered."""
        self.order = order
        await self._send(order)

    async def load(self, lines: LineRange) -> RangeOutcome:
        """Load a range; raise LoaderExited, or what the process raised."""
        self._number += 1
        answer: asyncio.Future[RangeOutcome] = asyncio.get_running_loop().create_future()
        self._answers[self._number] = answer
        await self._send(RangeOrder(self._number, lines))
        if self._receiving.done():
            self._fail_all()
        return await answer

    async def kill(self) -> None:
        """End the process at once."""
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._receiving

    async def _send(self, message: object) -> None:
        # A process that has ended is noticed by the end of its answers.
        with suppress(ConnectionError):
            self._orders.write(packed(message))
            await self._orders.drain()

    async def _receive(self) -> None:
        stream = cast("asyncio.StreamReader", self._process.stdout)
        while (message := await received(stream)) is not None:
            answer = self._answers.pop(message.number)
            if answer.done():
                continue
            if isinstance(message, RangeFailure):
                answer.set_exception(message.error)
            else:
                answer.set_result(message)
        await self._process.wait()
        self._fail_all()

    def _fail_all(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(LoaderExited(_description(self._process.returncode)))
        self._answers.clear()


def _description(code: int | None) -> str:
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
