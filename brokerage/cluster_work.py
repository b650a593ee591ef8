"""Work of commands on the configured cluster, with a client of their own."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from elasticsearch import AsyncElasticsearch

from brokerage.exit_codes import exit_on_error
from cluster.connection import ConnectionSettings, connect
from cluster.settings import load_settings

Result = TypeVar("Result")


def run_with_client(
    work: Callable[[AsyncElasticsearch, ConnectionSettings], Awaitable[Result]], timeout: float
) -> Result:
    """Run `work` with a client whose requests take at most `timeout` seconds; on failure, exit with one sentence."""

    async def run() -> Result:
        connection = load_settings(ConnectionSettings, os.environ)
        async with connect(connection, connections=2, timeout=timeout) as client:
            return await work(client, connection)

    with exit_on_error():
        return asyncio.run(run())
