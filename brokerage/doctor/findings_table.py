"""The output of `brokerage doctor`: a line for each check, and the remedy below each problem."""

from collections import Counter
from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from brokerage.console_tables import print_table
from brokerage.output import echo
from service.health.checks import Finding, FindingState

_STYLES = {
    FindingState.OK: "green",
    FindingState.UNKNOWN: "cyan",
    FindingState.ABSENT: "cyan",
    FindingState.WARNING: "yellow",
    FindingState.WRONG: "bold red",
}


def show_findings(findings: Iterable[Finding]) -> None:
    """Print all findings and a summary, in colors on a terminal."""
    findings = list(findings)
    table = Table(box=None, pad_edge=False, show_header=False)
    for column in ("state", "subject"):
        table.add_column(column, no_wrap=True)
    table.add_column("text", overflow="fold")
    for finding in findings:
        table.add_row(Text(finding.state.value, _STYLES[finding.state]), finding.subject, Text(_text_of(finding)))
        if finding.remedy:
            table.add_row("", "", Text(f"-> {finding.remedy}", "bold"))
    print_table(table)
    echo()
    echo(findings_summary(findings))


def _text_of(finding: Finding) -> str:
    return ". ".join(part for part in (finding.problem, finding.detail) if part)


def findings_summary(findings: Iterable[Finding]) -> str:
    """Return the last line: the number of findings by state, and whether the service can serve."""
    counts = Counter(finding.state for finding in findings)
    parts = [f"{counts[state]} {state.value}" for state in reversed(FindingState) if counts[state]]
    conclusion = "The service cannot serve everything." if counts[FindingState.WRONG] else "The service can serve."
    return f"{', '.join(parts)}. {conclusion}"
