"""The report of `brokerage index check` on a terminal."""

from collections.abc import Iterator

from rich.table import Table

from indexer.inspection import FieldSummary, ResourceCheck, SourceCheck
from indexer.reporting.report import FaultKind

_MAX_KINDS_SHOWN = 20
_MAX_SHOWN_CHARACTERS = 40


def check_report(check: SourceCheck) -> Iterator[Table | str]:
    """Yield the tables and sentences of a report."""
    for note in check.notes:
        yield f"Note: {note}."
    if check.companies:
        yield f"The source has no companies: {', '.join(check.companies[:10])} must be live."
    for resource in check.resources:
        yield ""
        yield headline(resource)
        if resource.faults:
            yield _faults(resource.faults)
        yield _fields(resource)
        yield from identifier_sentences(resource)


def headline(resource: ResourceCheck) -> str:
    """Return the counts of a resource in one sentence."""
    counts = {
        "bad": resource.bad,
        "skipped": resource.skipped,
        "deleted": resource.deleted,
        "values rounded": resource.rounded,
        "values corrected": resource.corrected,
    }
    others = "".join(f", {count:,} {name}" for name, count in counts.items() if count or name == "bad")
    return f"{resource.resource}: {resource.lines:,} lines{others}."


def identifier_sentences(resource: ResourceCheck) -> Iterator[str]:
    """Yield sentences about identifiers that several lines have, and references to records that do not exist."""
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
            yield f"{one.field}: {one.values:,} values not checked, since the source has no {one.target}."
        elif one.dangling:
            yield (
                f"{one.field}: {one.dangling:,} of {one.values:,} values are not in {one.target} "
                f"({one.lines:,} lines). {'; '.join(one.examples)}."
            )


def _faults(kinds: list[FaultKind]) -> Table:
    table = _table("Count", "Field", "Column", "Fault", "Such as")
    for kind in kinds[:_MAX_KINDS_SHOWN]:
        table.add_row(f"{kind.count:,}", kind.field, kind.column or "", kind.reason, str(kind.examples[0]))
    if len(kinds) > _MAX_KINDS_SHOWN:
        table.add_row("", "", "", f"{len(kinds) - _MAX_KINDS_SHOWN:,} more kinds: see --json or --html", "")
    return table


def _fields(resource: ResourceCheck) -> Table:
    table = _table("Field", "Filled", "From", "To", "Values")
    filled = [one for one in resource.fields if one.filled]
    for one in filled:
        table.add_row(one.name, resource.share_filled(one), *field_range(one))
    if empty := [one.name for one in resource.fields if not one.filled]:
        table.caption, table.caption_justify = f"Empty: {', '.join(empty)}.", "left"
    return table


def field_range(one: FieldSummary) -> tuple[str, str, str]:
    """Return the range of a field and its values if they are few."""
    repeated = one.values if one.values and len(one.values) < one.filled else {}
    values = ", ".join(f"{_short(value)} ({count:,})" for value, count in repeated.items())
    return _short(one.lowest), _short(one.highest), values


def _short(value: object) -> str:
    text = "" if value is None else f"{value}"
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in {"Count", "Filled"} else "left", overflow="fold")
    return table
