"""`brokerage serve`: the service over the cluster that ELASTICSEARCH_URL names."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

import rich_click as click

from brokerage.examples import ending
from brokerage.failures import told_plainly
from cluster.connection import ConnectionSettings
from cluster.settings import read
from service.listening import listen
from service.run import run
from service.settings import ServiceSettings
from service.slot import Plan
from service.supervisor import Supervisor
from service.telemetry.logs import set_up


@click.command(
    epilog=ending(
        "brokerage serve",
        "brokerage serve --host 0.0.0.0 --port 8080 --workers 4",
        exits="0 stopped in order, 1 it cannot listen or a worker had to be killed, 2 wrong usage or settings",
    )
)
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.")
@click.option("--workers", type=click.IntRange(1, 256), help="Processes that share the port.")
def serve(host: str | None, port: int | None, workers: int | None) -> None:
    """Serve the API until Ctrl-C. Options override BROKERAGE_HOST, BROKERAGE_PORT and BROKERAGE_WORKERS.

    With several workers SIGHUP replaces them one after the other.
    """
    with told_plainly():
        plan = _plan(host, port, workers)
        listeners = listen(plan.settings)
        port = listeners[0].port
        shown = f"[{plan.settings.host}]" if ":" in plan.settings.host else plan.settings.host
        if len(listeners) > 1 and not plan.settings.redis_url:
            click.echo("each worker limits keys by itself: set BROKERAGE_REDIS_URL to let all of them share the limits")
        click.echo(f"serving on http://{shown}:{port}/v1 with {len(listeners)} worker(s); Ctrl-C stops")
        if len(listeners) == 1:
            run(plan.settings, plan.connection, listeners=listeners[0])
            return
        set_up(plan.settings.log_format)
        sys.exit(Supervisor(lambda: _plan(host, port, workers), listeners).run())


def _plan(host: str | None, port: int | None, workers: int | None) -> Plan:
    """Read what workers are started with. Raises SettingError at the first unusable value."""
    given = {"host": host, "port": port, "workers": workers}
    changes = {name: value for name, value in given.items() if value is not None}
    connection = read(ConnectionSettings, os.environ)
    connection.require_url()
    return Plan(replace(read(ServiceSettings, os.environ), **changes), connection)  # type: ignore[arg-type]
