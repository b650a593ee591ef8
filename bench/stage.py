"""What a measurement runs on: the processes that respond, and the bytes of the requests to them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from bench import programs
from bench.arms import RAW, SERVICE, TWO_WORKERS
from bench.measure import ENGINE
from bench.options import Node, Options
from bench.tap import tapped
from bench.templates import Templates, overhear
from embedded.node_options import free_ports


@dataclass(frozen=True)
class Stage:
    """Templates of all requests, and the processes whose processor time is measured, as far as they are known."""

    templates: Templates
    processes: dict[str, int]


@asynccontextmanager
async def staged(options: Options, node: Node, key: str, identifiers: Sequence[str]) -> AsyncGenerator[Stage, None]:
    """Start the service, with one worker and with two."""
    bare = Templates(options, {RAW: node.url}, {}, key, identifiers)
    async with AsyncExitStack() as stack:
        running = {
            SERVICE: await stack.enter_async_context(programs.service(node.url, options.prefix)),
            TWO_WORKERS: await stack.enter_async_context(programs.service(node.url, options.prefix, workers=2)),
        }
        async with tapped(node.url, free_ports(1)[0]) as tap, programs.service(tap.url, options.prefix) as listener:
            await listener.ready()
            heard = await overhear(bare, tap, listener.url)
        for program in running.values():
            await program.ready()
        servers = {RAW: node.url} | {name: program.url for name, program in running.items()}
        processes = {name: program.pid for name, program in running.items()}
        yield Stage(replace(bare, heard=heard, servers=servers), processes | ({ENGINE: node.pid} if node.pid else {}))
