"""`brokerage index check`: inspect a source without Elasticsearch.

It reports on the terminal, and as one HTML page, which needs no other file.
"""

import os
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path

import orjson
import rich_click as click
from rich.table import Table

import indexer
from brokerage.completion import files
from brokerage.help import epilog
from brokerage.index.runner import (
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    exit_on_failure,
    print_error_line,
)
from brokerage.tables import print_table
from brokerage_feed.terminal import echo, exit_on_signal, fail
from cluster.settings import load_settings
from cluster.terminal import counted
from indexer.documents.companies import new_company_advice
from indexer.inspection import FieldSummary, ResourceCheck, SourceCheck, check_source
from indexer.reporting.displays import reasons_of, rounded_fields
from indexer.reporting.report import FaultKind, listed


@click.command(
    epilog=epilog(
        "brokerage index check listings.toml",
        "brokerage index check data --html report.html",
        "brokerage index check changes.ndjson.gz --resource listings --json",
        exits="0 every line can be served, 1 bad lines, or a load would be refused, 2 usage, settings or source error, "
        "130 SIGINT, 143 SIGTERM",
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
        exit_on_failure(),
        exit_on_signal(),
        indexer.open_source(source, resource=default, max_record_bytes=settings.max_record_bytes) as opened,
    ):
        found = check_source(opened, settings)
    if html is not None:
        write_text(html, _check_page(source, found))
    if as_json:
        echo(orjson.dumps(found))
    else:
        _print_report(found)
    raise SystemExit(1 if found.bad or found.objections else 0)


def _print_report(found: SourceCheck) -> None:
    for part in check_report(found):
        echo(part) if isinstance(part, str) else print_table(part)
    if found.bad:
        print_error_line(f"Bad lines, which would not be served: {found.bad:,}.")
    for objection in found.objections:
        print_error_line(f"A load would be refused: {objection}.")


def write_text(path: Path, text: str) -> None:
    """Write a file, or end with a sentence."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{path} cannot be written: {error.strerror}.")


_MAX_KINDS_SHOWN = 20
_MAX_SHOWN_CHARACTERS = 40
# UUIDs and addresses of pages have no range that says anything.
_UNORDERED = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$|https?://", re.IGNORECASE)
# Of a second.
_FRACTION = re.compile(r"(?<=T\d\d:\d\d:\d\d)\.\d+")


def check_report(check: SourceCheck, *, has_fields: bool = True) -> Iterator[Table | str]:
    """Yield what was found, in the order of interest; without `has_fields` not how the fields are filled."""
    for note in check.notes:
        yield f"Note: {note}."
    if check.companies:
        yield _undefined(check.companies)
    for resource in check.resources:
        yield ""
        yield headline(resource)
        if resource.faults:
            yield _faults(resource.faults)
        yield from _emptied_sentences(resource)
        if has_fields and resource.has_fields:
            yield _fields(resource)
        yield from _sentences_of(resource)


def _undefined(companies: list[str]) -> str:
    names = listed(companies, len(companies))
    return f"The source defines no company, so {names} must be live. {new_company_advice(companies[0])}"


def headline(resource: ResourceCheck) -> str:
    counts = {
        "bad": resource.bad,
        f"rows left out{reasons_of(resource.skip_reasons)}": resource.skipped,
        "deleted": resource.deleted,
        f"values rounded{rounded_fields(resource.roundings)}": resource.rounded,
        "values corrected": resource.corrected,
    }
    others = "".join(f", {count:,} {name}" for name, count in counts.items() if count or name == "bad")
    return f"{resource.resource}: {counted(resource.lines, 'line')}{others}."


def _sentences_of(resource: ResourceCheck) -> Iterator[str]:
    """Yield sentences about damaged cells, identifiers of several lines, dangling references, and fields to fill."""
    yield from (f"Warning: {warning}." for warning in resource.warnings)
    merged = resource.merged
    if merged is not None and merged.identifiers:
        yield (
            f"{merged.identifiers:,} identifiers have several lines ({merged.lines:,}), {merged.differing:,} of them "
            f"with different contents: only the newest line of each is served. {'; '.join(merged.examples)}."
        )
        if merged.of_several_companies:
            yield f"{merged.of_several_companies:,} identifiers have lines of several companies: these are refused."
    for one in resource.references:
        if not one.is_checked and one.values:
            yield f"{one.field}: {counted(one.values, 'value')} not checked, since the source has no {one.target}."
        elif one.dangling:
            yield (
                f"{one.field}: {one.dangling:,} of {counted(one.values, 'value')} not in {one.target} "
                f"({counted(one.lines, 'line')}). {'; '.join(one.examples)}."
            )
    yield from _fill_sentences(resource)


def _emptied_sentences(resource: ResourceCheck) -> Iterator[str]:
    for one in resource.emptied:
        yield f"{one.field}: {counted(one.count, 'unreadable cell')} left empty, such as {'; '.join(one.examples)}."


def _fill_sentences(resource: ResourceCheck) -> Iterator[str]:
    """Yield for each field that lines lack in how many of them it is filled, and why it is empty in the others."""
    for fill in resource.fills:
        filled = f"filled from {fill.origin} in {counted(fill.filled, 'line')}" if fill.filled else "filled in no line"
        empty = "".join(f"; empty in {count:,}: {reason}" for reason, count in fill.empty.items())
        yield f"{fill.field}, where the source lacks it: {filled}{empty}."


def _faults(kinds: list[FaultKind]) -> Table:
    table = _console_table("Count", "Field", "Column", "Fault", "Such as")
    for kind in kinds[:_MAX_KINDS_SHOWN]:
        table.add_row(f"{kind.count:,}", kind.field, kind.column or "", kind.reason, str(kind.examples[0]))
    if len(kinds) > _MAX_KINDS_SHOWN:
        table.add_row("", "", "", f"{len(kinds) - _MAX_KINDS_SHOWN:,} more kinds: see --json or --html", "")
    return table


def _fields(resource: ResourceCheck) -> Table:
    table = _console_table("Field", "Filled", "From", "To", "Values")
    filled = [one for one in resource.fields if one.filled]
    for one in filled:
        table.add_row(one.name, resource.share_filled(one), *_field_range(one))
    if empty := [one.name for one in resource.fields if not one.filled]:
        table.caption, table.caption_justify = f"Empty: {', '.join(empty)}.", "left"
    return table


def _field_range(one: FieldSummary) -> tuple[str, str, str]:
    """Return the range of a field and its values if they are few."""
    repeated = one.values if one.values and len(one.values) < one.filled else {}
    values = ", ".join(f"{_short(value)} ({count:,})" for value, count in repeated.items())
    if _UNORDERED.match(f"{one.lowest}"):
        return "", "", values
    return _short(one.lowest), _short(one.highest), values


def _short(value: object) -> str:
    text = "" if value is None else _FRACTION.sub("", f"{value}")
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…"


def _console_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in {"Count", "Filled"} else "left", overflow="fold")
    return table


_STYLE = """
:root { color-scheme: light dark; --ink: #1b2530; --soft: #55626f; --line: #dde3e8;
  --paper: #fff; --good: #e3f2ec; --bad: #fdeceb; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #dee6ec; --soft: #a0aeb9; --line: #2b363f; --paper: #11171c; --good: #16332b; --bad: #3a1916; }
}
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem;
  background: var(--paper); color: var(--ink); }
.headline { padding: .8rem 1.2rem; border-radius: 10px; background: var(--good); font-size: 1.2rem; font-weight: 650; }
.headline.bad { background: var(--bad); }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; font-size: .92rem; }
th, td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; padding: .3rem .5rem;
  text-align: left; vertical-align: top; }
th, .soft { color: var(--soft); }
summary { cursor: pointer; }
"""


def _check_page(source: str, check: SourceCheck) -> str:
    title = f"Check of {source}"
    kind = "headline bad" if check.bad or check.objections else "headline"
    body = [f"<h1>{escape(title)}</h1>", f'<p class="{kind}">{escape(_page_headline(check))}</p>']
    body += map(_paragraph, _sentences(check))
    # Those with faults first.
    for resource in sorted(check.resources, key=lambda one: not one.faults):
        body += _section(resource)
    viewport = '<meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f'<meta charset="utf-8">{viewport}<title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{"".join(body)}</body></html>\n'


def _page_headline(check: SourceCheck) -> str:
    counts = {
        "lines": sum(one.lines for one in check.resources),
        "bad": check.bad,
        "values rounded": sum(one.rounded for one in check.resources),
    }
    return " · ".join(f"{count:,} {name}" for name, count in counts.items())


def _sentences(check: SourceCheck) -> Iterator[str]:
    yield "No line is bad." if not check.bad else f"Bad lines, which would not be served: {check.bad:,}."
    yield from (f"A load would be refused: {objection}." for objection in check.objections)
    yield from (f"{note}." for note in check.notes)
    if check.companies:
        yield _undefined(check.companies)


def _section(resource: ResourceCheck) -> Iterator[str]:
    yield f"<h2>{escape(resource.resource)}</h2>{_paragraph(headline(resource))}"
    if resource.faults:
        yield _html_table(
            ("Count", "Field", "Column", "Fault", "Examples"),
            (
                (f"{kind.count:,}", kind.field, kind.column or "", kind.reason, "; ".join(map(str, kind.examples)))
                for kind in resource.faults
            ),
        )
    yield from map(_paragraph, (*_emptied_sentences(resource), *_sentences_of(resource)))
    if not resource.has_fields:
        return
    filled = [one for one in resource.fields if one.filled]
    rows = ((one.name, resource.share_filled(one), *_field_range(one)) for one in filled)
    yield f"<details open><summary>{counted(len(filled), 'field')} with values</summary>"
    yield _html_table(("Field", "Filled", "From", "To", "Values"), rows)
    if empty := [one.name for one in resource.fields if not one.filled]:
        yield f'<p class="soft">Empty: {escape(", ".join(empty))}.</p>'
    yield "</details>"


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _html_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
