"""What a measurement runs on: the processes that answer, and what is needed to ask them."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench import programs
from bench.arms import FLOOR, PEER, PEER_CANNED, RAW, SERVICE, SERVICE_CANNED, TEXTBOOK, TWO_WORKERS
from bench.measure import ENGINE
from bench.tap import tapped
from bench.templates import Templates, overhear
from embedded.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from contextlib import AbstractAsyncContextManager

    from bench.node import Node
    from bench.options import Options
    from bench.programs import Program
    from bench.progress import Progress


@dataclass(frozen=True)
class Stage:
    """Who answers where, and the processes whose processor time is taken, as far as they are known."""

    templates: Templates
    processes: dict[str, int]

    def joined(self, running: dict[str, Program]) -> Stage:
        """Return this with further programs."""
        servers = {**self.templates.servers, **{name: program.url for name, program in running.items()}}
        processes = {**self.processes, **{name: program.pid for name, program in running.items()}}
        return Stage(replace(self.templates, servers=servers), processes)


@asynccontextmanager
async def staged(options: Options, node: Node, key: str, identifiers: Sequence[str]) -> AsyncGenerator[Stage, None]:
    """Start the service, with one worker and with two, and the floor."""
    bare = Templates(options, dict.fromkeys((RAW, *TEXTBOOK), node.url), {}, key, identifiers)
    async with AsyncExitStack() as stack:
        running = {
            SERVICE: await stack.enter_async_context(programs.service(node.url, options.prefix)),
            TWO_WORKERS: await stack.enter_async_context(programs.service(node.url, options.prefix, workers=2)),
        }
        async with tapped(node.url, free_ports(1)[0]) as tap, programs.service(tap.url, options.prefix) as listener:
            await listener.ready()
            templates = replace(bare, heard=await overhear(bare, tap, listener.url))
        if "page" in templates.heard:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-floor-"))
            running[FLOOR] = await stack.enter_async_context(_floor(node, templates, Path(folder)))
        for program in running.values():
            await program.ready()
        yield Stage(templates, {} if node.pid is None else {ENGINE: node.pid}).joined(running)


def _floor(node: Node, templates: Templates, folder: Path) -> AbstractAsyncContextManager[Program]:
    asked = templates.heard["page"]
    body = folder / "body"
    body.write_bytes(asked.body)
    return programs.module("bench.floor", "--upstream", node.url + asked.target, "--body", str(body))


@asynccontextmanager
async def with_peers(stage: Stage, node: Node, index: str, progress: Progress) -> AsyncGenerator[Stage, None]:
    """Start the peer over an index, and it and the service once more over the canned engine.

    One that does not start is told, and its arms are absent.
    """
    async with AsyncExitStack() as stack:
        canned = await stack.enter_async_context(programs.module("bench.replay", "--upstream", node.url))
        chosen = {
            PEER: programs.peer(node.url, index),
            PEER_CANNED: programs.peer(canned.url, index),
            SERVICE_CANNED: programs.service(canned.url, stage.templates.options.prefix),
        }
        started = {name: await stack.enter_async_context(program) for name, program in chosen.items()}
        running = {}
        for name, program in started.items():
            try:
                await program.ready()
            except (RuntimeError, TimeoutError) as error:
                progress.tell(f"{name} does not start: {error}")
            else:
                running[name] = program
        yield stage.joined(running)
