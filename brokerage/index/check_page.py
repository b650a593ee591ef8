"""The report of `brokerage index check` as one HTML page, which needs no other file."""

from collections.abc import Iterable, Iterator
from html import escape

from brokerage.index.check_tables import field_range, headline, identifier_sentences
from indexer.inspection import ResourceCheck, SourceCheck

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; width: 100%; }
th, td { border-bottom: 1px solid #8884; overflow-wrap: anywhere; padding: .25rem .5rem; text-align: left; }
td { vertical-align: top; }
:root { color-scheme: light dark; }
"""


def check_page(source: str, check: SourceCheck) -> str:
    """Return the page of a report."""
    title = f"Check of {source}"
    body = [f"<h1>{escape(title)}</h1>", *map(_paragraph, _sentences(check))]
    for resource in check.resources:
        body += _section(resource)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{"".join(body)}</body></html>\n'


def _sentences(check: SourceCheck) -> Iterator[str]:
    yield "No line is bad." if not check.bad else f"Bad lines, which would not be served: {check.bad:,}."
    yield from (f"{note}." for note in check.notes)
    if check.companies:
        yield f"The source has no companies: {', '.join(check.companies)} must be live."


def _section(resource: ResourceCheck) -> Iterator[str]:
    yield f"<h2>{escape(resource.resource)}</h2>{_paragraph(headline(resource))}"
    if resource.faults:
        yield _table(
            ("Count", "Field", "Column", "Fault", "Examples"),
            (
                (f"{kind.count:,}", kind.field, kind.column or "", kind.reason, "; ".join(map(str, kind.examples)))
                for kind in resource.faults
            ),
        )
    yield from map(_paragraph, identifier_sentences(resource))
    rows = ((one.name, resource.share_filled(one), *field_range(one)) for one in resource.fields)
    yield _table(("Field", "Filled", "From", "To", "Values"), rows)


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
