"""`brokerage serve`: the service, on the cluster in ELASTICSEARCH_URL."""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace

import rich_click as click

from brokerage.command_runs import exit_on_error
from brokerage.help import epilog
from brokerage_feed.terminal import echo
from cluster.connection import ConnectionSettings
from cluster.settings import load_settings
from cluster.terminal import counted
from service.capabilities import load_service_settings, require_known_capabilities
from service.settings import ServiceSettings
from service.telemetry.logs import configure_logging
from service.workers.supervisor import Supervisor, WorkerPoolConfig
from service.workers.worker import bind_sockets, run_server


@click.command(
    epilog=epilog(
        "brokerage serve",
        "brokerage serve --host 0.0.0.0 --port 8080 --workers 4",
        exits="0 graceful shutdown, 1 cannot listen or a worker was killed, 2 usage or settings error",
    )
)
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on; 0 takes a free one.")
@click.option("--workers", type=click.IntRange(1, 256), help="Number of processes, which share the port.")
def serve(host: str | None, port: int | None, workers: int | None) -> None:
    """Serve the API until Ctrl-C. Options override BROKERAGE_HOST, BROKERAGE_PORT and BROKERAGE_WORKERS.

    With several workers, SIGHUP restarts them one after another.
    """
    with exit_on_error():
        plan = _read_plan(host, port, workers)
        listeners = bind_sockets(plan.settings)
        port = listeners[0].port
        host_text = f"[{plan.settings.host}]" if ":" in plan.settings.host else plan.settings.host
        if len(listeners) > 1 and _counts_alone(plan.settings):
            echo("each worker has rate limits of its own: set BROKERAGE_REDIS_URL to share them")
        for name, address in _pages(plan.settings, f"http://{host_text}:{port}"):
            echo(f"{name}: {address}")
        echo(f"serving on http://{host_text}:{port}/v1 with {counted(len(listeners), 'worker')}; Ctrl-C stops")
        if len(listeners) == 1:
            run_server(plan.settings, plan.connection, listeners=listeners[0])
            return
        configure_logging(plan.settings.log_format)
        sys.exit(Supervisor(lambda: _read_plan(host, port, workers), listeners).run())


def _pages(settings: ServiceSettings, root: str) -> Iterator[tuple[str, str]]:
    """Yield what people open in a browser."""
    left_out = require_known_capabilities(settings.without)
    if "site" not in left_out:
        yield "documentation for partners", f"{root}/docs"
    if settings.metrics_port and "console" not in left_out:
        yield "console", f"http://{settings.metrics_host}:{settings.metrics_port}/console"


def _counts_alone(settings: ServiceSettings) -> bool:
    """Whether workers could share the limits of keys, but do not."""
    # Not at the top: a worker imports nothing of what is left out.
    from service.redis.capability import RedisSettings  # noqa: PLC0415

    redis = settings.find(RedisSettings)
    return redis is not None and not redis.redis_url


def _read_plan(host: str | None, port: int | None, workers: int | None) -> WorkerPoolConfig:
    """Return the configuration of the workers. Raise SettingError for the first invalid value."""
    options = {"host": host, "port": port, "workers": workers}
    changes = {name: value for name, value in options.items() if value is not None}
    connection = load_settings(ConnectionSettings, os.environ)
    connection.require_url()
    settings = replace(load_service_settings(os.environ), **changes)  # type: ignore[arg-type]
    return WorkerPoolConfig(settings, connection)
