"""`brokerage index verify`: compare the live records with a source or an earlier generation."""

from collections.abc import Iterator
from functools import partial

import orjson
import rich_click as click
from click.shell_completion import CompletionItem

from brokerage.completion import files
from brokerage.help import INDEX_EXITS, epilog
from brokerage.index.runner import (
    ALL_COMPANIES_OPTION,
    COMPANY_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    coverage_request,
    exit_on_failure,
    open_configured_source,
    run_on_cluster,
)
from brokerage_feed.terminal import echo
from indexer.clock import version_time
from indexer.documents.companies import BY_SOURCE, CoverageRequest
from indexer.verify.verification import (
    RecordDifference,
    VerificationResult,
    verify_against_generation,
    verify_against_source,
)
from mappings import Resource

_MAX_RECORDS_SHOWN = 20


def _complete_names(context: click.Context, argument: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    return RESOURCE_CHOICE.shell_complete(context, argument, incomplete) or files(context, argument, incomplete)


@click.command(
    epilog=epilog(
        "brokerage index verify data",
        "brokerage index verify data listings --full",
        "brokerage index verify listings --against listings-v0003",
        exits=INDEX_EXITS,
    )
)
@click.argument("names", nargs=-1, metavar="[SOURCE] [RESOURCE]...", shell_complete=_complete_names)
@click.option("--against", metavar="GENERATION", help="An earlier index version to compare with instead of SOURCE.")
@click.option("--full", is_flag=True, help="Read whole documents and compare the stored bytes of each record.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, with up to 1,000 records of each kind of difference."
)
@COMPANY_OPTION
@ALL_COMPANIES_OPTION
def verify(  # noqa: PLR0913 - what is compared with what, and how it is printed
    *,
    names: tuple[str, ...],
    against: str | None,
    full: bool,
    as_json: bool,
    companies: tuple[str, ...],
    all_companies: bool,
) -> None:
    """Compare the live records with SOURCE, those of the companies that it covers; or all with the previous version.

    Reports missing, surplus and different records; with --full also records whose stored bytes were altered. Records
    that changed since, and invalid lines of the source, are reported but are not errors. A first name that is a
    resource is not taken as SOURCE: write ./listings for such a folder. Exits with 1 if any record differs.
    """
    source, chosen = _split(names)
    if source is not None and against is not None:
        raise click.UsageError("Give a SOURCE or --against, not both.")
    covered = coverage_request(companies, is_all=all_companies)
    if source is None and covered != BY_SOURCE:
        raise click.UsageError("--company and --all-companies are about a SOURCE: give one.")
    resources = [RESOURCES_BY_NAME[name] for name in chosen]

    results = _compare(source, against, resources, covered, is_full=full)
    code = int(not all(result.is_equal for result in results))
    if as_json:
        by_name = {result.resource: _plain(result) for result in results}
        echo(orjson.dumps({"exit_code": code, "resources": by_name}))
    else:
        echo("\n".join(line for result in results for line in _lines(result)))
    raise SystemExit(code)


def _split(names: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    source, chosen = (None, names) if not names or names[0] in RESOURCES_BY_NAME else (names[0], names[1:])
    for name in chosen:
        if name not in RESOURCES_BY_NAME:
            raise click.UsageError(f"{name} is not a resource: use one of {', '.join(RESOURCES_BY_NAME)}.")
    return source, chosen


def _compare(
    source: str | None, generation: str | None, resources: list[Resource], covered: CoverageRequest, *, is_full: bool
) -> list[VerificationResult]:
    if source is None:
        return run_on_cluster(
            partial(verify_against_generation, resources=resources, generation=generation, is_full=is_full)
        )
    default = resources[0] if len(resources) == 1 else None
    with exit_on_failure(), open_configured_source(source, default) as opened:
        work = partial(verify_against_source, source=opened, resources=resources, covered=covered, is_full=is_full)
        return run_on_cluster(work)


def _lines(result: VerificationResult) -> Iterator[str]:
    if result.index is None:
        yield f"{result.resource}: {result.reference} has records, but no version is live."
        return
    rate = result.compared / max(result.seconds, 0.001)
    compared = f"{result.compared:,} of {result.reference} in {result.index}"
    yield f"{result.resource}: {compared}: {_outcome(result)} ({rate:,.0f}/s), covering {result.covers}"
    for kind, named in result.named.items():
        for record in named[:_MAX_RECORDS_SHOWN]:
            expected, found = _time(record.expected) or "absent", _time(record.found) or "absent"
            yield f"  {kind}: {record.id}, {result.reference} {expected}, index {found}"
    for line in result.unreadable_named[:_MAX_RECORDS_SHOWN]:
        yield f"  unreadable: {line.file}, line {line.line}: {line.field} {line.reason}"

    for identifier in result.unreachable_named[:_MAX_RECORDS_SHOWN]:
        rule = RESOURCES_BY_NAME[result.resource].identifier_rule
        yield f"  unreachable: {identifier!r}: an identifier {rule}: {_advice(result, identifier)}"


def _advice(result: VerificationResult, identifier: str) -> str:
    is_convertible = RESOURCES_BY_NAME[result.resource].canonical_identifier(identifier) is not None
    return "rebuild, to store it in lower case" if is_convertible else "correct it at the source"


def _outcome(result: VerificationResult) -> str:
    counts = [f"{count:,} {kind}" for kind, count in result.counts.items() if count]
    others = {"unreadable": result.unreadable, "unreachable": result.unreachable}
    counts += [f"{count:,} {kind}" for kind, count in others.items() if count]
    return ", ".join([*(["equal"] if result.is_equal else []), *counts])


def _plain(result: VerificationResult) -> dict[str, object]:
    return {
        "reference": result.reference,
        "index": result.index,
        "covers": result.covers,
        "equal": result.is_equal,
        "compared": result.compared,
        "repeated": result.repeated,
        "unreadable": result.unreadable,
        "unreachable": result.unreachable,
        "seconds": result.seconds,
        "counts": {kind.value: count for kind, count in result.counts.items()},
        "named": {kind.value: [_timed(record) for record in named] for kind, named in result.named.items()},
        "unreachable_named": result.unreachable_named,
        "unreadable_named": [line._asdict() for line in result.unreadable_named],
    }


def _timed(record: RecordDifference) -> dict[str, str | None]:
    return {"id": record.id, "expected": _time(record.expected), "found": _time(record.found)}


def _time(version: int | None) -> str | None:
    return None if version is None else version_time(version)
