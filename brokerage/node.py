"""`brokerage node`: runs an embedded Elasticsearch in the foreground until Ctrl-C."""

import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import rich_click as click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TransferSpeedColumn
from rich.progress import Progress as Bars

from brokerage.examples import ending
from brokerage.failures import told_plainly
from embedded import EmbeddedCluster, EmbeddedNodeError, NodeOptions, NodeProcess, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

DEFAULT_PORT: Final = 9200
_LOOK: Final = 0.5  # seconds between two looks at the nodes


@click.command(
    epilog=ending(
        "brokerage node",
        "brokerage node --nodes 3 --port 9200 --data nodes",
        exits="0 stopped, 1 it cannot start or has ended by itself, 2 wrong usage or settings",
    )
)
@click.option(
    "--nodes", type=click.IntRange(1, 9), default=1, show_default=True, help="How many nodes form the cluster."
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
    help="Folder for data, logs and snapshots; by default one in your cache folder.",
)
def node(nodes: int, port: int, data: Path | None) -> None:
    """Run a real Elasticsearch on this machine, for demos and tests: no Docker, no Java needed.

    The first start downloads about 46 MB. The heap of each node is BROKERAGE_NODE_HEAP_MB (default 1024).
    """
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)  # also where a shell started this in the background with it ignored
    try:
        with told_plainly():
            _run(nodes, port, data)
    except EmbeddedNodeError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        click.echo("stopped")


def _interrupt(_number: int, _frame: "FrameType | None") -> None:
    raise KeyboardInterrupt


def _run(nodes: int, port: int, data: Path | None) -> None:
    options = NodeOptions(nodes=nodes, port=port, data=data)
    with shown_progress() as report:
        cluster = EmbeddedCluster(options, report)
        cluster.start()
    try:
        _announce(cluster)
        _watch(cluster.processes)
    finally:
        click.echo("stopping")
        cluster.stop()


def _announce(cluster: EmbeddedCluster) -> None:
    click.echo(f"data: {cluster.data}")
    for process in cluster.processes:
        click.echo(f"log:  {process.log}")
    click.echo(f"ready: {' '.join(cluster.urls)}")
    click.echo("Press Ctrl-C to stop")


def _watch(processes: list[NodeProcess]) -> None:
    """Return never: raise when the last node has ended by itself, tell of each one before."""
    running = list(processes)
    while True:
        for process in [each for each in running if each.exit_code is not None]:
            running.remove(process)
            if not running:
                raise process.failure()
            click.echo(
                f"{process.name} ended {process.describe_end()}, the others go on (log: {process.log})", err=True
            )
        time.sleep(_LOOK)


class _Reporter:
    """Shows a bar for what has a size and a line for each other step."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._task: TaskID | None = None
        self._last = ""

    def __call__(self, progress: Progress) -> None:
        if progress.step != self._last:
            self._last = progress.step
            self._bars.console.print(progress.step, highlight=False)
        if progress.total and self._bars.console.is_terminal:
            if self._task is None:
                self._task = self._bars.add_task("", total=progress.total)
            self._bars.update(self._task, completed=progress.done, total=progress.total)


@contextmanager
def shown_progress() -> "Iterator[_Reporter]":
    """Show the steps of a node's start for as long as the context lasts."""
    columns = (TextColumn("  "), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    console = Console()
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        yield _Reporter(bars)
