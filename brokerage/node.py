"""`brokerage node`: run an embedded Elasticsearch in the foreground until Ctrl-C."""

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import rich_click as click
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from brokerage.command_runs import exit_on_error
from brokerage.help import epilog
from brokerage_feed.terminal import echo
from cluster.terminal import SafeConsole
from embedded import DataFolderError, EmbeddedCluster, EmbeddedNodeError, NodeOptions, NodeProcess, StartProgress

DEFAULT_PORT: Final = 9200
_POLL_SECONDS: Final = 0.5


@click.command(
    epilog=epilog(
        "brokerage node",
        "brokerage node --nodes 3 --port 9200 --data nodes",
        exits="0 stopped, 1 failed to start or crashed, 2 usage or settings error",
    )
)
@click.option(
    "--nodes", type=click.IntRange(1, 9), default=1, show_default=True, help="Number of nodes in the cluster."
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="HTTP port of the first node; the next nodes take the following ports.",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for data, logs and snapshots; in your cache folder by default.",
)
def node(nodes: int, port: int, data: Path | None) -> None:
    """Run a real Elasticsearch on this machine, for demos and tests. It needs neither Docker nor Java.

    The first start downloads about 46 MB. The heap of each node is BROKERAGE_NODE_HEAP_MB (default 1024).
    """
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # a shell ignores it for background jobs
    try:
        with exit_on_error():
            _run(nodes, port, data)
    except EmbeddedNodeError as error:
        echo(f"Error: {error}{' with --data' if isinstance(error, DataFolderError) else ''}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        echo("stopped")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(nodes: int, port: int, data: Path | None) -> None:
    options = NodeOptions(nodes=nodes, port=port, data=data)
    with show_start_progress() as report:
        cluster = EmbeddedCluster(options, report)
        cluster.start()
    try:
        _announce(cluster)
        _watch(cluster.processes)
    finally:
        echo("stopping")
        cluster.stop()


def _announce(cluster: EmbeddedCluster) -> None:
    echo(f"data: {cluster.data}")
    for process in cluster.processes:
        echo(f"log:  {process.log}")
    echo(f"ready: {' '.join(cluster.urls)}")
    echo("Press Ctrl-C to stop")


def _watch(processes: list[NodeProcess]) -> None:
    """Report each node that ends by itself; raise when the last one has ended."""
    running = list(processes)
    while True:
        for process in [process for process in running if process.exit_code is not None]:
            running.remove(process)
            if not running:
                raise process.failure()
            echo(
                f"{process.name} ended {process.describe_end()}, the others keep running (log: {process.log})", err=True
            )
        time.sleep(_POLL_SECONDS)


class _ProgressReporter:
    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._last = ""

    def __call__(self, progress: StartProgress) -> None:
        if progress.step != self._last:
            self._last = progress.step
            self._bars.console.print(progress.step, highlight=False)
        if progress.total and self._bars.console.is_terminal:
            if self._task is None:
                self._task = self._bars.add_task("", total=progress.total)
            self._bars.update(self._task, completed=progress.done, total=progress.total)


@contextmanager
def show_start_progress() -> Iterator[_ProgressReporter]:
    columns = (TextColumn("  "), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = SafeConsole()
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        yield _ProgressReporter(bars)
