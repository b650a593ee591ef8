"""The scripted server closes every connection when it ends, whatever its state."""

import asyncio
import gc
import socket

import pytest

from tests.network.server import HOST, serving, silent


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_is_being_accepted_is_closed(turns: int) -> None:
    async with serving(silent()) as server:
        client = socket.create_connection((HOST, server.port), timeout=5)
        for _ in range(turns):
            await asyncio.sleep(0)
    require_closed(client)


@pytest.mark.parametrize("turns", range(8))
async def test_a_connection_whose_script_is_cancelled_early_is_closed(turns: int) -> None:
    async with serving(silent()) as server:
        client = socket.create_connection((HOST, server.port), timeout=5)
        for _ in range(turns):
            await asyncio.sleep(0)
        for task in server.tasks:
            task.cancel()
        await asyncio.sleep(0)
    require_closed(client)


def require_closed(client: socket.socket) -> None:
    """See that the server has ended the connection, also one that it had not accepted."""
    with client:
        try:
            received = client.recv(1)
        except ConnectionResetError:
            received = b""
    assert received == b""
    gc.collect()  # what was left open is an error of this test
