"""`brokerage index map`: draft a column map from files."""

import sys
from pathlib import Path

import rich_click as click
from rich.table import Table

from brokerage.completion import files
from brokerage.exit_codes import exit_on_error, fail
from brokerage.help_epilogs import INDEX_EXITS, epilog
from brokerage.index.index_runner import (
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    exit_on_indexer_error,
    print_error_line,
)
from brokerage.output import echo
from brokerage_feed.signals import exit_on_signal
from cluster.safe_console import SafeConsole
from indexer.drafting.columns import Confidence
from indexer.drafting.map_draft import MapDraft, TableDraft, draft_map

_MAX_EXAMPLE_CHARACTERS = 40
_PIPE_WIDTH = 1000


@click.command(
    name="map",
    epilog=epilog(
        "brokerage index map listings.csv --company acme",
        "brokerage index map listings/ agents.csv --company acme --output export.toml",
        exits=INDEX_EXITS,
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="FILE...", shell_complete=files)
@click.option("--company", help="Key of the company that the records belong to.")
@click.option("--resource", type=RESOURCE_CHOICE, help="Resource of the rows, guessed by default.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this new file.")
def map_files(*, names: tuple[str, ...], company: str | None, resource: str | None, output: Path | None) -> None:
    """Draft the column map (TOML) of CSV files, archives or folders from their headers and values.

    A table on standard error shows what each column is taken for. What is unsure is commented out in the map.
    """
    folder = output.parent if output else Path()
    if output is not None and output.exists():
        fail(f"{output} exists already: name another file, or delete it.")
    with exit_on_error(), exit_on_indexer_error(), exit_on_signal():
        draft = draft_map(names, folder, company=company, resource=RESOURCES_BY_NAME[resource] if resource else None)
    _print(draft)
    if output is None:
        echo(draft.text.removesuffix("\n"))
        return
    try:
        output.write_text(draft.text, encoding="utf-8")
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}.")
    print_error_line(f"Written: {output}. Next: brokerage index check {output}")


def _print(draft: MapDraft) -> None:
    console = SafeConsole(stderr=True, width=None if sys.stderr.isatty() else _PIPE_WIDTH, markup=False)
    for table in draft.tables:
        console.print(_guess_table(table))
    if draft.missing:
        print_error_line(f"Still to be set in the map: {', '.join(draft.missing)}.")


def _guess_table(table: TableDraft) -> Table:
    shown = Table(
        box=None, pad_edge=False, title=f"{table.resource.alias}: {', '.join(table.files)}", title_justify="left"
    )
    for heading in ("Column", "Field", "Confidence", "Example", "Note"):
        shown.add_column(heading, overflow="fold")
    for guess in table.guesses:
        confidence = guess.confidence if guess.is_declared else Confidence.LOW
        example = guess.example[:_MAX_EXAMPLE_CHARACTERS]
        shown.add_row(
            guess.column, guess.field or "", confidence.value if guess.field else "", example, guess.draft.note
        )
    return shown
