"""The screen of `brokerage doctor`: a line for each check, and under what is not well how to mend it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import rich_click as click
from rich.table import Table
from rich.text import Text

from brokerage.tables import show
from service.soundness import Finding, State

if TYPE_CHECKING:
    from collections.abc import Iterable

_STYLES = {
    State.OK: "green",
    State.UNKNOWN: "cyan",
    State.ABSENT: "cyan",
    State.WARNING: "yellow",
    State.WRONG: "bold red",
}


def show_findings(findings: Iterable[Finding]) -> None:
    """Print all findings and the sum of them; in colours on a terminal."""
    findings = list(findings)
    table = Table(box=None, pad_edge=False, show_header=False)
    for column in ("state", "subject"):
        table.add_column(column, no_wrap=True)
    table.add_column("text", overflow="fold")
    for finding in findings:
        table.add_row(Text(finding.state.value, _STYLES[finding.state]), finding.subject, Text(_said(finding)))
        if finding.remedy:
            table.add_row("", "", Text(f"-> {finding.remedy}", "bold"))
    show(table)
    click.echo()
    click.echo(summary(findings))


def _said(finding: Finding) -> str:
    return ". ".join(part for part in (finding.problem, finding.detail) if part)


def summary(findings: Iterable[Finding]) -> str:
    """Return the sentence at the end."""
    counts = Counter(finding.state for finding in findings)
    parts = [f"{counts[state]} {state.value}" for state in reversed(State) if counts[state]]
    verdict = "The service cannot serve all of it." if counts[State.WRONG] else "The service can serve."
    return f"{', '.join(parts)}. {verdict}"
