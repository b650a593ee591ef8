"""`brokerage serve`: the service over the cluster that ELASTICSEARCH_URL names."""

from __future__ import annotations

import os
from dataclasses import replace

import rich_click as click

from brokerage.failures import told_plainly
from cluster.connection import ConnectionSettings
from cluster.settings import read
from service.run import run
from service.settings import ServiceSettings
from service.supervisor import Supervisor


@click.command()
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on.")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes that share the port.")
def serve(host: str | None, port: int | None, workers: int | None) -> None:
    """Serve the API until Ctrl-C. Options override BROKERAGE_HOST, BROKERAGE_PORT and BROKERAGE_WORKERS."""
    with told_plainly():
        connection = read(ConnectionSettings, os.environ)
        settings = _settings(host, port, workers)
        connection.require_url()
        click.echo(
            f"serving on http://{settings.host}:{settings.port}/v1 with {settings.workers} worker(s); Ctrl-C stops"
        )
        run(settings, connection) if settings.workers == 1 else Supervisor(settings, connection).run()


def _settings(host: str | None, port: int | None, workers: int | None) -> ServiceSettings:
    given = {"host": host, "port": port, "workers": workers}
    changes = {name: value for name, value in given.items() if value is not None}
    return replace(read(ServiceSettings, os.environ), **changes)  # type: ignore[arg-type]
