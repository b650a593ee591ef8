"""`brokerage demo`: everything at once, an embedded Elasticsearch, sample data, a key and the service."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import rich_click as click

from brokerage.demo_data import Demo, prepare
from brokerage.examples import ending
from brokerage.failures import fail, told_plainly
from brokerage.node import shown_progress
from cluster.connection import ConnectionSettings
from cluster.settings import read
from embedded import EmbeddedCluster, EmbeddedNodeError, NodeOptions
from embedded.folders import cache_folder
from service.run import run
from service.settings import ServiceSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_PREFIX = "demo-"


@click.command(
    epilog=ending(
        "brokerage demo",
        "brokerage demo --port 8090 --listings 20000",
        exits="0 stopped by Ctrl-C, 1 it cannot start, 2 wrong usage or settings, 3 Elasticsearch is away, 143 stopped",
    )
)
@click.option("--port", type=click.IntRange(1, 65535), default=8080, show_default=True, help="Port to listen on.")
@click.option("--listings", type=click.IntRange(min=1), default=2000, show_default=True, help="Listings to generate.")
def demo(port: int, listings: int) -> None:
    """Serve sample data from an embedded Elasticsearch until Ctrl-C.

    The first start downloads Elasticsearch and writes the data; later ones take seconds. With ELASTICSEARCH_URL that
    cluster is used, under index names of the demo's own.
    """
    signal.signal(signal.SIGTERM, _leave)
    started = time.monotonic()
    with told_plainly():
        settings = replace(read(ServiceSettings, os.environ), port=port, workers=1, drain_seconds=0.0)
        _refuse_taken_port(settings)
        with _cluster() as connection:
            demo_ = prepare(connection, listings)
            run(settings, connection, lambda: _greet(settings, demo_, time.monotonic() - started))
    click.echo("stopped")


def _leave(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def _refuse_taken_port(settings: ServiceSettings) -> None:
    """Say so before minutes go into a start that cannot succeed."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            fail(f"Cannot listen on {settings.host}:{settings.port}: {error.strerror}. Choose another --port.")


@contextmanager
def _cluster() -> Iterator[ConnectionSettings]:
    given = read(ConnectionSettings, os.environ)
    if given.url:
        yield replace(given, prefix=given.prefix + _PREFIX)
        return
    try:
        with shown_progress() as report:
            cluster = EmbeddedCluster(NodeOptions(data=cache_folder() / "data" / "demo"), report)
            cluster.start()
    except EmbeddedNodeError as error:
        fail(str(error))
    try:
        yield replace(given, url=(cluster.url,), prefix=_PREFIX)
    finally:
        cluster.stop()


def _greet(settings: ServiceSettings, demo_: Demo, seconds: float) -> None:
    root = f"http://{settings.host}:{settings.port}/v1"
    header = f"-H 'x-api-key: {demo_.key}'"
    feed = f"{root}/listings?platform_company_id={demo_.company}&page_size={demo_.page_size}"
    click.echo(
        f"""
The sample data is served at {root} after {seconds:.0f} s. It is generated around real house sales.

API key (reads every company of the demo):
  {demo_.key}

A page of the listings feed:
  curl {header} '{feed}'

The next page:
  curl {header} '{feed}&last_platform_listing_id={demo_.last_listing}'

An agent:
  curl {header} '{root}/agents/{demo_.agent}'

Guides, and a reference where the key can be tried:
  {root.removesuffix("/v1")}/docs

Ctrl-C stops the service and Elasticsearch."""
    )
