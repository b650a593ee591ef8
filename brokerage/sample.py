"""`brokerage sample`: write a source folder of generated data."""

from pathlib import Path

import rich_click as click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from brokerage.help import epilog
from brokerage.tables import plain_table, print_table
from brokerage_feed.terminal import echo
from cluster.terminal import SafeConsole
from sample import SampleError, SourceSummary, sold_count, write_source


@click.command(
    epilog=epilog(
        "brokerage sample data",
        "brokerage sample data --listings 100000 --seed 8",
        exits="0 success, 1 DIR contains other files, 2 usage error",
    )
)
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
@click.option("--listings", type=click.IntRange(min=1), default=2000, show_default=True, help="Number of listings.")
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the generator.")
def sample(directory: Path, listings: int, seed: int) -> None:
    """Write sample data to DIR, ready to be indexed.

    Prices, sizes and locations come from real house sales; companies, offices, agents and teams are generated. There
    are about half as many sold listings as listings. DIR must be empty, new or an earlier sample.
    """
    try:
        summary = _write(directory, listings, seed)
    except SampleError as problem:
        raise click.ClickException(str(problem)) from problem
    print_table(_table(summary))
    echo(f"Written to {summary.directory} with seed {summary.seed}; README.txt describes the data.")


def _write(directory: Path, listings: int, seed: int) -> SourceSummary:
    console = SafeConsole(stderr=True)
    columns = TextColumn("Writing records"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    written: dict[str, int] = {}
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("records", total=listings + sold_count(listings))

        def advance(resource: str, count: int) -> None:
            if resource in {"listings", "sold_listings"}:
                written[resource] = count
                progress.update(bar, completed=sum(written.values()))

        return write_source(directory, listings, seed, on_progress=advance)


def _table(summary: SourceSummary) -> Table:
    table = plain_table("Resource", folded=())
    table.add_column("Records", justify="right")
    for resource, count in summary.counts.items():
        table.add_row(resource, f"{count:,}")
    return table
