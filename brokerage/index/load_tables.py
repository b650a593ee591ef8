"""`brokerage index map` and `brokerage index load`: from tables to a column map, and on to the first page.

A map is drafted once and then belongs to the operator: `load` writes it beside the files, and never changes what is in
it.
"""

import asyncio
import os
import re
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import NoReturn

import orjson
import rich_click as click
from elastic_transport import TransportError
from elasticsearch import ApiError
from rich.table import Table

import indexer
from brokerage.completion import files
from brokerage.help import INDEX_EXITS, epilog
from brokerage.index.inspect_source import check_report, write_text
from brokerage.index.load import publication_after_swap, rebuild
from brokerage.index.runner import (
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    YES_OPTION,
    exit_on_failure,
    print_error_line,
    print_note,
    run_on_cluster,
)
from brokerage.keys import unknown_companies
from brokerage.tables import plain_table, print_table
from brokerage_feed.terminal import ExitCode, echo, exit_on_signal, fail
from cluster.connection import ConnectionSettings, connect
from cluster.settings import SettingError, load_settings
from cluster.terminal import counted
from indexer.documents.companies import Coverage, CoverageRequest, companies_from_index
from indexer.drafting.columns import Confidence
from indexer.drafting.map_draft import MapDraft, NewCompany, TableDraft, draft_map
from indexer.generations.lifecycle import LIVE_QUERY, GenerationLifecycle, live_generations
from indexer.inspection import SourceCheck, check_source
from indexer.reporting.report import RunStage, listed
from indexer.source.tables.column_map import TableFormat, read_column_maps
from indexer.source.tables.rows import table_files
from mappings import COMPANY, LISTING, RESOURCES, Resource
from service.settings import ServiceSettings

_COMPANY_KEY = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MAX_EXAMPLE_CHARACTERS = 40
_LOOK_UP_SECONDS = 5.0
_NAME_OPTION = click.option("--name", help="Name of the company, if it is new; its key by default.")


@click.command(
    name="map",
    epilog=epilog(
        "brokerage index map listings.csv --company acme",
        "brokerage index map listings/ agents.csv --company acme --output export.toml",
        exits="0 success, 1 failure, 2 usage, settings or source error, 130 SIGINT, 143 SIGTERM",
    ),
)
@click.argument("names", nargs=-1, required=True, metavar="FILE...", shell_complete=files)
@click.option("--company", help="Key of the company that the records belong to; one that is not live is defined.")
@_NAME_OPTION
@click.option("--resource", type=RESOURCE_CHOICE, help="Resource of the rows, guessed by default.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this new file.")
def map_files(
    *, names: tuple[str, ...], company: str | None, name: str | None, resource: str | None, output: Path | None
) -> None:
    """Draft a column map (TOML) from CSV files, archives or folders.

    A table on standard error shows what each column is taken for. Uncertain lines are commented out.
    Elasticsearch is asked whether the company is live; if it cannot be reached, a note says so.
    """
    folder = output.parent if output else Path()
    if output is not None and output.exists():
        fail(f"{output} exists already: name another file, or delete it.")
    with exit_on_failure(), exit_on_signal():
        definition = _definition(company, name) if company else None
        asked = RESOURCES_BY_NAME[resource] if resource else None
        draft = draft_map(names, folder, company=company, definition=definition, resource=asked)
    _print_draft(draft, err=True)
    if output is None:
        echo(draft.text.removesuffix("\n"))
        return
    write_text(output, draft.text)
    print_error_line(f"Written: {output}. Next: brokerage index check {output}")


def _definition(company: str, name: str | None) -> NewCompany | None:
    """Return how to define a company, None if it is live."""

    async def is_unknown() -> bool:
        connection = load_settings(ConnectionSettings, os.environ)
        async with connect(connection, connections=1, timeout=_LOOK_UP_SECONDS) as client:
            return bool(await unknown_companies(client, connection, [company]))

    try:
        return NewCompany(name or company) if asyncio.run(is_unknown()) else None
    except (ApiError, TransportError, SettingError) as error:
        print_error_line(
            f"Note: Elasticsearch could not be asked whether {company} is live ({str(error).rstrip('.')}), so the map "
            "defines it in [company]. If it is live, see the first lines of the map."
        )
        return NewCompany(name or company, is_certain=False)


def _print_draft(draft: MapDraft, *, err: bool) -> None:
    for table in draft.tables:
        print_table(_guess_table(table), err=err)
    for note in draft.notes:
        print_error_line(f"Note: {note}.")
    if draft.missing:
        print_error_line(f"Still to be set in the map: {', '.join(draft.missing)}.")


def _guess_table(table: TableDraft) -> Table:
    headings, title = ("Column", "Field", "Confidence", "Example", "Note"), ", ".join(table.files)
    shown = plain_table(*headings, folded=headings, title=f"{table.resource.alias}: {title}", title_justify="left")
    for guess in table.guesses:
        confidence = guess.confidence if guess.is_declared else Confidence.LOW
        example = guess.example[:_MAX_EXAMPLE_CHARACTERS]
        shown.add_row(
            guess.column, guess.field or "", confidence.value if guess.field else "", example, guess.draft.note
        )
    return shown


@click.command(
    epilog=epilog(
        "brokerage index load listings.csv --company acme",
        'brokerage index load listings.csv agents.csv --company a --name "A" --yes',
        exits=INDEX_EXITS,
    )
)
@click.argument("names", nargs=-1, required=True, metavar="FILE...", shell_complete=files)
@click.option("--company", required=True, help="Key of the company that the records belong to; it may be new.")
@_NAME_OPTION
@click.option(
    "--map",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Column map that is kept; by default COMPANY.toml beside the first FILE.",
)
@YES_OPTION
@JSON_OPTION
def load(  # noqa: PLR0913 - one parameter for each option
    *, names: tuple[str, ...], company: str, name: str | None, path: Path | None, yes: bool, as_json: bool
) -> None:
    """Load the CSV files, archives or folders of a company: draft their column map, check it, ask, and load.

    The files must be complete for the resources that they hold: records of the company that they lack are deleted,
    unless too many are. Records of other companies and resources stay. The map is kept. The next load of the same files
    uses it as it is, and names columns that are new; files of a resource that it lacks are added to it. What
    `brokerage index reindex MAP` does is the same, without the draft and the question.
    """
    if not _COMPANY_KEY.fullmatch(company):
        raise click.UsageError(f"--company is {company!r}: use 1 to 64 letters, digits, underscores or hyphens.")
    path = path or Path(names[0]).parent / f"{company}.toml"
    with exit_on_failure(), exit_on_signal():
        publication = publication_after_swap((company,), as_json=as_json)
        live = run_on_cluster(partial(_live_records, company=company))
        resources, new = list[Resource](), [*names]
        if path.exists():
            resources, new = _kept_map(path, names, company, as_json=as_json)
        if new:
            definition = None if live.is_known else NewCompany(name or company)
            draft = draft_map(new, path.parent, company=company, definition=definition)
            resources += _written(draft, path, as_json=as_json)
        settings = load_settings(indexer.IndexerSettings, os.environ)
        with indexer.open_source(str(path), max_record_bytes=settings.max_record_bytes) as source:
            chosen = [one for one in RESOURCES if one in resources or (one is COMPANY and source.has(COMPANY))]
            check = check_source(source, settings, resources=chosen)
            _show_check(check, as_json=as_json)
            _ask(_question(check, company, live), path, yes=yes, as_json=as_json)
            first = [resource for resource in chosen if not live.counts.get(resource)]
            request = indexer.RebuildRequest(chosen, CoverageRequest((company,)), tolerated=first)
            summary = rebuild(source, request, as_json=as_json)
    if summary.is_refused:
        print_error_line(f"To go live anyway: brokerage index reindex {path} --company {company} --force")
    if summary.resources_at(RunStage.SWAPPED):
        if publication is not None:
            publication()
        for sentence in _next_steps(company, LISTING if LISTING in chosen else chosen[-1], path):
            print_note(sentence, as_json=as_json) if as_json else echo(sentence)
    raise SystemExit(summary.exit_code)


@dataclass
class LiveRecords:
    """Whether a company is live, and how many records it has by resource."""

    is_known: bool
    counts: dict[Resource, int]


async def _live_records(context: indexer.IndexerContext, company: str) -> LiveRecords:
    # At once, not after minutes, if Elasticsearch cannot be reached: nothing is lost yet.
    hasty = replace(context, settings=replace(context.settings, retry_seconds=0.0))
    key = (await companies_from_index(hasty)).key_of(company)
    if key is None:
        return LiveRecords(is_known=False, counts={})
    query = {"bool": {"filter": [LIVE_QUERY, Coverage(frozenset({key})).query]}}
    live = await live_generations(hasty)
    counts = {one: await GenerationLifecycle(hasty, one).count(index, query) for one, index in live.items()}
    return LiveRecords(is_known=True, counts=counts)


def _kept_map(path: Path, names: Sequence[str], company: str, *, as_json: bool) -> tuple[list[Resource], list[str]]:
    """Return the resources of the kept map that the files are of, and the files that it lacks.

    What the map does not read of the others is said. Raises SourceError.
    """
    text, resources, new = path.read_text(encoding="utf-8"), list[Resource](), [*names]
    maps = read_column_maps(path)
    print_note(f"{path} is used as it is: delete it to draft it again.", as_json=as_json)
    for one in maps:
        owner = one.declared.platform_company_id
        if isinstance(owner, str) and owner != company:
            raise indexer.SourceError(f"{path} is the map of {owner}, not of {company}: name another with --map.")
        read = _paths(one.declared, path)
        given = {name: _paths(TableFormat(files=[_relative(name, path)]), path) for name in new}
        if known := [name for name in new if read & given[name]]:
            if unread := sorted(map(str, set[Path]().union(*(given[name] for name in known)) - read)):
                names = listed(unread, len(unread))
                raise indexer.SourceError(f"{path} does not read {names}: correct `files` of [{one.resource.alias}].")
            resources.append(one.resource)
            new = [name for name in new if name not in known]
            for sentence in _unread_columns(draft_map(known, path.parent, resource=one.resource), text, path):
                print_note(sentence, as_json=as_json)
    found = {table.resource for table in draft_map(new, path.parent).tables} if new else set()
    if twice := [one.resource.alias for one in maps if one.resource in found]:
        raise indexer.SourceError(
            f"{path} reads {twice[0]} from other files than {', '.join(new)}: correct `files` of [{twice[0]}] in it, "
            "or name another map with --map."
        )
    return resources, new


def _paths(declared: TableFormat, path: Path) -> set[Path]:
    return {file.path.resolve() for file in table_files(declared, path.parent, path.name)}


def _relative(name: str, path: Path) -> str:
    return os.path.relpath(name, path.parent)


def _unread_columns(draft: MapDraft, text: str, path: Path) -> Iterator[str]:
    """Yield a sentence for each column whose name the text of the map does not have."""
    for table in draft.tables:
        for guess in table.guesses:
            if not re.search(rf"[\"'{{]{re.escape(guess.column)}[\"'}}]", text):
                meaning = f", which looks like {guess.field}" if guess.field else ""
                yield f"New: {path} does not read the column {guess.column!r} of {table.files[0]}{meaning}."


def _written(draft: MapDraft, path: Path, *, as_json: bool) -> list[Resource]:
    """Write a draft as a new map, or at the end of the kept one, and return its resources."""
    if draft.others:
        raise indexer.SourceError(
            f"{', '.join(draft.others)}: the columns differ from those of other files of the same resource. Give these "
            "files the same columns, or write a column map for each in one folder, and load that folder with reindex."
        )
    if as_json:
        guesses = {one.resource.alias: _guess_event(one) for one in draft.tables}
        echo(orjson.dumps({"event": "map", "path": str(path), "guesses": guesses}))
    else:
        _print_draft(draft, err=False)
    if path.exists():
        write_text(path, f"{path.read_text(encoding='utf-8').rstrip()}\n{draft.tables_text}")
    else:
        write_text(path, draft.text)
    print_note(f"Written: {path}. Correct it there if a guess is wrong.", as_json=as_json)
    if draft.missing:
        _end_for_map(path, f"The map lacks {', '.join(draft.missing)}.")
    return [table.resource for table in draft.tables]


def _guess_event(table: TableDraft) -> list[dict[str, str | None]]:
    return [
        {"column": one.column, "field": one.field, "confidence": one.confidence.value, "note": one.draft.note}
        for one in table.guesses
    ]


def _end_for_map(path: Path, reason: str) -> NoReturn:
    fail(f"Nothing was loaded. {reason} Complete {path}, then run the same command again.", ExitCode.USAGE)


def _show_check(check: SourceCheck, *, as_json: bool) -> None:
    if as_json:
        echo(orjson.dumps({"event": "check", **asdict(check)}))
        return
    for part in check_report(check, has_fields=False):
        echo(part) if isinstance(part, str) else print_table(part)


def _question(check: SourceCheck, company: str, live: LiveRecords) -> str:
    """Return what is to be loaded, what is bad in it, and what of the company is replaced."""
    parts, warnings = list[str](), list[str]()
    for one in check.resources:
        if one.resource != COMPANY.alias:
            parts.append(counted(one.lines - one.bad - one.deleted, one.resource.removesuffix("s")))
        if one.bad:
            warnings.append(
                f"{one.bad:,} of {counted(one.lines, 'line')} of {one.resource} cannot be read and will not be served."
            )
    replaced = [
        f"{count:,} live {resource.alias}"
        for resource, count in live.counts.items()
        if resource.alias in {one.resource for one in check.resources} and count and resource is not COMPANY
    ]
    of = company if live.is_known else f"the new company {company}"
    in_place = f", in place of {', '.join(replaced)}" if replaced else ""
    return " ".join([*warnings, f"Load {', '.join(parts)} of {of}{in_place}?"])


def _ask(question: str, path: Path, *, yes: bool, as_json: bool) -> None:
    """Return if the operator agrees; otherwise end."""
    if yes:
        print_note(question.replace("?", "."), as_json=as_json)
    elif as_json or not sys.stdin.isatty():
        reason = "with --json" if as_json else "without a terminal"
        fail(
            f"{question} Nothing was loaded, because {reason} there is nobody to ask: look at {path}, then run the "
            "same command with --yes.",
            ExitCode.USAGE,
        )
    elif not click.confirm(question, err=True):
        fail(f"Nothing was loaded. Correct {path} or the files, then run the same command again.")


def _next_steps(company: str, resource: Resource, path: Path) -> Iterator[str]:
    settings = load_settings(ServiceSettings, os.environ)
    host = "127.0.0.1" if settings.host in {"0.0.0.0", "::"} else settings.host  # noqa: S104 - all addresses have this one
    with closing(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)) as probe:
        is_serving = probe.connect_ex((host, settings.port)) == 0
    address = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}/v1/{resource.alias}"
    yield "To read the first page:"
    if not is_serving:
        yield "  brokerage serve          # in another terminal; nothing listens on its port yet"
    yield f'  brokerage keys create "My first partner" --company {company}    # prints the KEY'
    yield f"  curl -H \"x-api-key: $KEY\" '{address}?platform_company_id={company}&updated_since=1'"
    yield f"How the fields are filled: brokerage index check {path}"
