"""The table of the groups of fields that changes name, for the documentation."""

from collections.abc import Callable, Iterator

from mappings import RESOURCES
from mappings.resource import DETAILS
from service.feed.parameters import CHANGE_GROUPS


def change_group_table() -> str:
    return "\n".join(["| group | fields |", "|---|---|", *map(_row, CHANGE_GROUPS)])


def _row(name: str) -> str:
    return f"| `{name}` | {'all others' if name == DETAILS else ', '.join(dict.fromkeys(_fields(name)))} |"


def _fields(name: str) -> Iterator[str]:
    groups = [group for resource in RESOURCES for group in resource.change_groups.values() if group.name == name]
    yield from (f"`{member}`" for group in groups for member in group.members)
    if any(group.search_fields for group in groups):
        yield "whether the record is deactivated"


# By the placeholder in a page.
TABLES: dict[str, Callable[[], str]] = {"<!-- change groups -->": change_group_table}
