"""`brokerage index check`: inspect a source without Elasticsearch."""

import os
from pathlib import Path

import orjson
import rich_click as click

import indexer
from brokerage.completion import files
from brokerage.console_tables import print_table
from brokerage.exit_codes import exit_on_error, fail
from brokerage.help_epilogs import INDEX_EXITS, epilog
from brokerage.index.check_page import check_page
from brokerage.index.check_tables import check_report
from brokerage.index.index_runner import (
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    exit_on_indexer_error,
    print_error_line,
)
from brokerage.output import echo
from brokerage_feed.signals import exit_on_signal
from cluster.settings import load_settings
from indexer.inspection import SourceCheck, check_source


@click.command(
    epilog=epilog(
        "brokerage index check listings.toml",
        "brokerage index check data --html report.html",
        "brokerage index check changes.ndjson.gz --resource listings --json",
        exits=INDEX_EXITS,
    )
)
@click.argument("source", shell_complete=files)
@click.option("--resource", type=RESOURCE_CHOICE, help="Resource of lines that do not name one.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), help="Also write the report to this HTML file."
)
@JSON_OPTION
def check(*, source: str, resource: str | None, html: Path | None, as_json: bool) -> None:
    """Read all of SOURCE, and report its faults, fields, identifiers and references. Elasticsearch is not needed.

    SOURCE is as for reindex. Each kind of fault is counted and has examples with file, line and value.
    """
    default = RESOURCES_BY_NAME[resource] if resource else None
    settings = load_settings(indexer.IndexerSettings, os.environ)
    with (
        exit_on_error(),
        exit_on_indexer_error(),
        exit_on_signal(),
        indexer.open_source(source, resource=default, max_record_bytes=settings.max_record_bytes) as opened,
    ):
        found = check_source(opened, settings)
    if html is not None:
        _write(html, check_page(source, found))
    if as_json:
        echo(orjson.dumps(found).decode())
    else:
        _print(found)
    raise SystemExit(1 if found.bad else 0)


def _print(found: SourceCheck) -> None:
    for part in check_report(found):
        echo(part) if isinstance(part, str) else print_table(part)
    if found.bad:
        print_error_line(f"Bad lines, which would not be served: {found.bad:,}.")


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}.")
