"""Write the tables of `performance.md` from the results."""

from pathlib import Path

from bench import tables
from bench.results import Results

BEGIN = "<!-- results:begin -->"
END = "<!-- results:end -->"
_EMPTY = f"# Performance\n\n{BEGIN}\n{END}\n"


class ReportError(Exception):
    """The page cannot be written; the message is one sentence."""


def report(found: Results, docs: Path) -> None:
    """Write the tables between the marks of the page; the text around them stays as it is."""
    page = docs / "performance.md"
    text = page.read_text(encoding="utf-8") if page.exists() else _EMPTY
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(between_marks(text, tables.everything(found)), encoding="utf-8")


def between_marks(text: str, body: str) -> str:
    """Return the text with `body` between its markers, replacing the previous content."""
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ReportError(f"The page lacks {BEGIN} or, after it, {END}.")
    return f"{before}{BEGIN}\n\n{body}\n\n{END}{after}"
