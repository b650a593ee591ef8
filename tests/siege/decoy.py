"""A server that refuses everything after a pause and does no work: `python -m tests.siege.decoy SECONDS`.

Attackers that attack it cost honest keys of the real service only what the attackers themselves need of the machine.
Prints its port.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import uvloop

from bench.programs import ending

_HEAD_END = b"\r\n\r\n"
_BODY = b'{"code":"too-many-at-once"}'
_REFUSAL = b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
# What the attackers of long polls ask first.
_FIRST_PAGE, _LAST_TOKEN = b"resources=companies", b'{"at_end":true,"next":"last"}'
_STOP_SECONDS = 10


class DecoyConnection(asyncio.Protocol):
    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer when the head of a request is complete."""
        self._received += data
        if self._received.endswith(_HEAD_END):
            answer = _REFUSAL % (len(_BODY), _BODY)
            if _FIRST_PAGE in self._received:
                answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(_LAST_TOKEN), _LAST_TOKEN)
            asyncio.get_running_loop().call_later(self._pause, self._answer, answer)
            self._received = b""

    def _answer(self, answer: bytes) -> None:
        if not self._transport.is_closing():  # attackers end before their pause does
            self._transport.write(answer)


@asynccontextmanager
async def running_decoy(pause: float) -> AsyncIterator[str]:
    """Run a decoy in a process of its own; yield its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.siege.decoy", str(pause), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    async with ending(process, _STOP_SECONDS):
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}"


async def _serve(pause: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: DecoyConnection(pause), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(float(sys.argv[1])))
