"""Writes the page and its plots from the results: the same results give the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import tables

if TYPE_CHECKING:
    from pathlib import Path

    from bench.results import Results

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"
_EMPTY = f"# Performance\n\n{BEGIN}\n{END}\n"


class ReportError(Exception):
    """The page cannot be written; the message is one sentence."""


def report(found: Results, docs: Path) -> None:
    """Write the plots, and the tables between the marks of the page; the text round them stays as it is."""
    page = docs / "performance.md"
    text = page.read_text(encoding="utf-8") if page.exists() else _EMPTY
    images = _plots(found, docs / "performance")
    body = "\n\n".join([tables.everything(found), *images])
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(between_marks(text, body), encoding="utf-8")


def between_marks(text: str, body: str) -> str:
    """Return the text with `body` between its marks in place of what stood there."""
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ReportError(f"The page lacks {BEGIN} or, behind it, {END}.")
    return f"{before}{BEGIN}\n\n{body}\n\n{END}{after}"


def _plots(found: Results, folder: Path) -> list[str]:
    """Draw what there is to draw; return the page's references to it."""
    # Drawing takes a library that measuring does without.
    from bench.plots import draw  # noqa: PLC0415

    return [f"![{title}](performance/{name})" for name, title in draw(found, folder).items()]
