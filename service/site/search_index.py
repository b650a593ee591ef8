"""The search index of the site: sections of pages, fields, parameters and problems, as JSON for the browser."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache

import orjson

from service.site.field_tables import field_anchor, field_entries, field_type, resource_title
from service.site.markdown import render_markdown
from service.site.page_text import page_text
from service.site.pages import FIELDS_PAGE, PAGE_BY_PATH


@dataclass(frozen=True)
class SearchEntry:
    """A place that a search can find: its URL, title, the page or resource that it belongs to, and its words."""

    url: str
    title: str
    group: str
    text: str


@cache
def encoded_search_index() -> bytes:
    """Return the entries as a JSON array."""
    return orjson.dumps([asdict(entry) for entry in (*_sections(), *_fields())])


def _sections() -> Iterator[SearchEntry]:
    for page in PAGE_BY_PATH.values():
        for section in render_markdown(page_text(page)).sections:
            # Fields are entries of their own.
            text = "" if page is FIELDS_PAGE else section.text
            anchor = f"#{section.anchor}" if section.level > 1 else ""
            yield SearchEntry(f"{page.path}{anchor}", section.title, page.title, text)


def _fields() -> Iterator[SearchEntry]:
    for resource, path, field in field_entries():
        url = f"{FIELDS_PAGE.path}#{field_anchor(resource, path)}"
        note = f"{field_type(field)}. {field.note}".strip()
        yield SearchEntry(url, path, f"Field of {resource_title(resource).lower()}", note)
