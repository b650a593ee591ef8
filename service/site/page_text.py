"""The Markdown of a page, with the sections that are generated from declarations."""

from collections.abc import Callable

from service.site.changelog import api_changelog
from service.site.entity_set_tables import entity_set_tables
from service.site.field_tables import field_group_table, field_tables
from service.site.operation_tables import operations, parameters
from service.site.pages import SitePage
from service.site.problem_table import problem_table

# Placeholders in texts, and the functions that generate their content.
GENERATED_SECTIONS: dict[str, Callable[[], str]] = {
    "<!-- fields -->": field_tables,
    "<!-- field groups -->": field_group_table,
    "<!-- problems -->": problem_table,
    "<!-- changes -->": api_changelog,
    "<!-- entity sets -->": entity_set_tables,
    "<!-- operations -->": operations,
    "<!-- parameters -->": parameters,
}


def page_text(page: SitePage) -> str:
    """Return the text of a page, complete."""
    text = page.text
    for placeholder, generate in GENERATED_SECTIONS.items():
        if placeholder in text:
            text = text.replace(placeholder, generate())
    return text
