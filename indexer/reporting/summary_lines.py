"""The summary of a run as text: the counts of each resource, and then what is wrong with it."""

from collections.abc import Iterator

from indexer.reporting.fault_tally import fault_lines
from indexer.reporting.report import EVERY_COMPANY_COVERED, ResourceReport, RunStage, RunSummary

_MAX_ROUNDED_FIELDS = 3


def summary_lines(summary: RunSummary) -> Iterator[str]:
    """Yield a line of counts for each resource that the source has, and one for those that it lacks.

    A run without any resource is an update from a source without lines.
    """
    if not summary.resources:
        yield "No lines to apply."
    by_stage: dict[RunStage, list[str]] = {}
    for report in summary.resources:
        by_stage.setdefault(report.stage, []).append(report.resource)
        if report.stage is RunStage.BUILT:
            yield f"{report.resource}: built and kept as {report.generation}, not swapped"
        elif report.stage not in {RunStage.ABSENT, RunStage.WAITING}:
            yield _counts_line(report)
    for stage, start in ((RunStage.WAITING, "Not begun"), (RunStage.ABSENT, "Not in the source")):
        if names := by_stage.get(stage):
            yield f"{start}: {', '.join(names)}."


def _counts_line(report: ResourceReport) -> str:
    counts = {
        "indexed": report.indexed,
        "unchanged": report.unchanged,
        "older than another state": report.stale,
        "merged with another line": report.merged,
        "invalid": report.dead,
        "vanished": report.vanished,
        "carried over": report.carried,
        "kept although unreadable": report.kept,
        "OnMarket values corrected": report.corrected,
        "retries": report.retries,
    }
    skipped = [f"{report.skipped:,} rows left out by skip_if"] if report.skipped else []
    details = [f"{report.read:,} read", *skipped, *(f"{count:,} {name}" for name, count in counts.items() if count)]
    details += [_rounded(report)] if report.rounded else []
    starts = {
        RunStage.SWAPPED: f" {report.documents:,} live in {report.generation};",
        RunStage.REFUSED: " refused;",
        RunStage.CHECKED: " checked;",
    }
    resumed = f"; resumed after line {report.resumed_at:,}" if report.resumed_at else ""
    resumed = "; built by an earlier run, which was refused" if report.is_taken else resumed
    return f"{report.resource}:{starts.get(report.stage, '')} {', '.join(details)}{_coverage(report)}{resumed}"


def _coverage(report: ResourceReport) -> str:
    """Return which companies a build replaces, and how many records of which of them vanish."""
    is_notable = report.others or report.covers == EVERY_COMPANY_COVERED
    covers = f"; covers {report.covers}" if is_notable else ""
    others = f", and {report.others:,} records of other companies stay as they are" if report.others else ""
    vanished = ", ".join(f"{count:,} of {company}" for company, count in report.vanished_companies.items())
    return f"{covers}{others}{f'; vanished: {vanished}' if vanished else ''}"


def _rounded(report: ResourceReport) -> str:
    """Return the count of rounded numbers and the fields that have most of them, each with an example."""
    most = sorted(report.roundings, key=lambda each: -each.count)
    named = [f"{each.count:,} {each.field}, such as {each.given} to {each.whole}" for each in most]
    more = [f"{len(most) - _MAX_ROUNDED_FIELDS} more fields"] if len(most) > _MAX_ROUNDED_FIELDS else []
    fields = "; ".join([*named[:_MAX_ROUNDED_FIELDS], *more])
    return f"{report.rounded:,} numbers rounded" + (f" ({fields})" if fields else "")


def problem_lines(report: ResourceReport) -> Iterator[str]:
    """Yield what a run overrode, what it warns of, why it was refused, and what is not served, with causes."""
    yield from (f"Overridden: {objection}." for objection in report.overridden)
    yield from (f"Warning: {warning}." for warning in report.warnings)
    yield from failure_lines(report)


def failure_lines(report: ResourceReport) -> Iterator[str]:
    """Yield why a run failed: a refusal, invalid lines with their most frequent causes, records that are not served."""
    if report.refusal:
        yield report.refusal
    elif report.dead:
        yield _dead_letters(report)
    yield from (f"  {line}" for line in fault_lines(report.causes))
    for kind in report.unserved:
        yield f"{kind.count:,} {report.resource} of the source are not served: {kind.reason}."
        yield from (f"  {example}" for example in kind.examples)


def kept_line(summary: RunSummary) -> str | None:
    """Return what became of the resources that were built along with a refused one, in a sentence, or None."""
    refused, built = (", ".join(summary.resources_at(stage)) for stage in (RunStage.REFUSED, RunStage.BUILT))
    if not built:
        return None
    return (
        f"{built}: built, not swapped, because all resources of a rebuild are swapped in together and {refused} "
        "were refused. The candidates are kept, and the next run of the same source takes them."
    )


def _dead_letters(report: ResourceReport) -> str:
    kept = f" {report.kept} of them stay live as they were." if report.kept else ""
    return (
        f"{report.dead:,} of {report.read:,} {report.resource} are invalid and were not loaded: "
        f"see {report.dead_letters}.{kept}"
    )
