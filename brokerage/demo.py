"""`brokerage demo`: the service with sample data and a key, on an embedded Elasticsearch."""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

import rich_click as click

from brokerage.demo_data import DemoExamples, prepare_demo
from brokerage.exit_codes import exit_on_error, fail
from brokerage.help_epilogs import epilog
from brokerage.node import show_start_progress
from brokerage.output import echo
from cluster.connection import ConnectionSettings
from cluster.settings import load_settings
from embedded import DataFolderError, EmbeddedCluster, EmbeddedNodeError, NodeOptions
from embedded.cache_folders import cache_folder
from embedded.ports import free_ports
from service.settings import ServiceSettings
from service.workers.worker import run_server

_PREFIX = "demo-"
_CONSOLE_DISTANCE = 1000


@click.command(
    epilog=epilog(
        "brokerage demo",
        "brokerage demo --port 8090 --listings 20000",
        exits="0 stopped by Ctrl-C, 1 failure, 2 usage or settings error, 3 Elasticsearch unavailable, 143 SIGTERM",
    )
)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Port to listen on.")
@click.option("--listings", type=click.IntRange(min=1), default=2000, show_default=True, help="Listings to generate.")
def demo(port: int, listings: int) -> None:
    """Serve sample data from an embedded Elasticsearch until Ctrl-C.

    The first start downloads Elasticsearch and generates the data; later starts take seconds. If ELASTICSEARCH_URL is
    set, the demo uses that cluster, with its own index names.
    """
    signal.signal(signal.SIGTERM, _exit_on_sigterm)
    started = time.monotonic()
    with exit_on_error():
        loaded = load_settings(ServiceSettings, os.environ)
        settings = replace(loaded, port=port, workers=1, drain_seconds=0.0)
        _require_free_port(settings.host, port, "Choose another --port.")
        settings = replace(settings, metrics_port=settings.metrics_port or _console_port(settings))
        _require_free_port(settings.metrics_host, settings.metrics_port, "Choose another BROKERAGE_METRICS_PORT.")
        with _cluster() as connection:
            examples = prepare_demo(connection, listings)
            run_server(settings, connection, lambda: _greet(settings, examples, time.monotonic() - started))
    echo("stopped")


def _exit_on_sigterm(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _require_free_port(host: str, port: int, remedy: str) -> None:
    """Fail before minutes are spent on a start that cannot succeed."""
    if (error := _listen_error(host, port)) is not None:
        fail(f"Cannot listen on {host}:{port}: {error.strerror}. {remedy}")


def _listen_error(host: str, port: int) -> OSError | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def _console_port(settings: ServiceSettings) -> int:
    """Return the same port at every start, so that bookmarks keep working; a free one if that is taken."""
    preferred = settings.port + (_CONSOLE_DISTANCE if settings.port < 2**16 - _CONSOLE_DISTANCE else -_CONSOLE_DISTANCE)
    return preferred if _listen_error(settings.metrics_host, preferred) is None else free_ports(1)[0]


@contextmanager
def _cluster() -> Iterator[ConnectionSettings]:
    settings = load_settings(ConnectionSettings, os.environ)
    if settings.url:
        yield replace(settings, prefix=settings.prefix + _PREFIX)
        return
    try:
        with show_start_progress() as report:
            cluster = EmbeddedCluster(NodeOptions(data=cache_folder() / "data" / "demo"), report)
            cluster.start()
    except DataFolderError as error:
        fail(f"Error: {error} with XDG_CACHE_HOME")
    except EmbeddedNodeError as error:
        fail(f"Error: {error}")
    try:
        yield replace(settings, url=(cluster.url,), prefix=_PREFIX)
    finally:
        cluster.stop()


def _greet(settings: ServiceSettings, examples: DemoExamples, seconds: float) -> None:
    root = f"http://{settings.host}:{settings.port}/v1"
    header = f"-H 'x-api-key: {examples.key}'"
    feed = f"{root}/listings?platform_company_id={examples.company}&page_size={examples.page_size}"
    echo(
        f"""
Serving sample data at {root} after {seconds:.0f} s. It is generated from real house sales.

API key (reads every company in the demo):
  {examples.key}

A page of the listings feed:
  curl {header} '{feed}'

The next page:
  curl {header} '{feed}&last_platform_listing_id={examples.last_listing}'

An agent:
  curl {header} '{root}/agents/{examples.agent}'

Guides, a map, and an API reference where you can try the key:
  {root.removesuffix("/v1")}/docs

The operators' console:
  http://{settings.metrics_host}:{settings.metrics_port}/console

Ctrl-C stops the service and Elasticsearch."""
    )
