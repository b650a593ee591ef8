"""How a command runs: with a client of its own on the configured cluster.

If it fails, there is one sentence on standard error, and an exit code for the reason.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from elastic_transport import TlsError, TransportError
from elasticsearch import ApiError, AsyncElasticsearch

from brokerage.settings_types import reject_unknown_settings
from brokerage_feed.terminal import ExitCode, fail
from cluster.connection import ConnectionSettings, connect
from cluster.index_state import refusal_reason
from cluster.settings import SettingError, load_settings
from service.settings import ListenError


@contextmanager
def exit_on_error(*, reject_unknown: bool = True) -> Iterator[None]:
    """Turn errors of settings, of the cluster and of listening into one sentence each, and exit.

    `reject_unknown` first fails on variables that are named like settings but are not settings.
    """
    try:
        if reject_unknown:
            reject_unknown_settings(os.environ)
        yield
    except SettingError as error:
        fail(str(error), ExitCode.USAGE)
    except ListenError as error:
        fail(str(error))
    except TlsError as error:
        fail(f"Elasticsearch cannot be used: {error.message}", ExitCode.UNAVAILABLE)
    except TransportError as error:
        fail(
            f"Elasticsearch cannot be reached: {error.message}. Is ELASTICSEARCH_URL right, https or http included?",
            ExitCode.UNAVAILABLE,
        )
    except ApiError as error:
        fail(_describe(error), ExitCode.UNAVAILABLE)


def _describe(error: ApiError) -> str:
    if reason := refusal_reason(error):
        return f"Elasticsearch rejects writes: {reason}. Free disk space or remove the block."
    return f"Elasticsearch returned an error: {error.message}."


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
