"""Tables of the entity sets for the documentation."""

from collections.abc import Callable, Iterator

from service.reso.sets.declarations import ENTITY_SETS
from service.reso.sets.entity_set import EntityProperty, EntitySet


def entity_set_tables() -> str:
    return "\n\n".join("\n".join(_entity_set_section(entity_set)) for entity_set in ENTITY_SETS.values())


def _entity_set_section(entity_set: EntitySet) -> Iterator[str]:
    yield f"### {entity_set.name}"
    yield ""
    yield entity_set.origin
    yield ""
    yield "| Property | Type | Source | Use |"
    yield "|---|---|---|---|"
    for declared in entity_set.properties.values():
        edm_type = declared.edm.removeprefix("Edm.")
        yield f"| `{declared.name}` | {edm_type} | {_sources(declared)} | {_uses(entity_set, declared)} |"


def _sources(declared: EntityProperty) -> str:
    return ", ".join(
        f"`{name}`" for name in dict.fromkeys(column.source_member for column in declared.columns.values())
    )


def _uses(entity_set: EntitySet, declared: EntityProperty) -> str:
    uses = {"key": declared.is_key, "filter": declared.is_filterable, "order": declared.name in entity_set.sortable}
    return ", ".join(use for use, holds in uses.items() if holds)


# By the placeholder in a page.
TABLES: dict[str, Callable[[], str]] = {"<!-- entity sets -->": entity_set_tables}
