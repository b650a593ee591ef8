"""The entity sets of the RESO Web API as tables: each property, its type, and what of ours it is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.reso.entities import ENTITY_SETS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.reso.entities import EntitySet, Property


def entity_sets() -> str:
    """Return a section for each entity set."""
    return "\n\n".join("\n".join(_section(each)) for each in ENTITY_SETS.values())


def _section(entity_set: EntitySet) -> Iterator[str]:
    yield f"### {entity_set.name}"
    yield ""
    yield f"Made of {' and '.join(f'`{resource.alias}`' for resource in entity_set.resources)}."
    yield ""
    yield "| Property | Type | Made of | Use |"
    yield "|---|---|---|---|"
    for each in entity_set.properties.values():
        yield f"| `{each.name}` | {each.edm.removeprefix('Edm.')} | {_made_of(each)} | {_use(entity_set, each)} |"


def _made_of(each: Property) -> str:
    return ", ".join(f"`{name}`" for name in dict.fromkeys(column.of for column in each.columns.values()))


def _use(entity_set: EntitySet, each: Property) -> str:
    uses = {"key": each.is_key, "filter": each.is_exact, "order": each.name in entity_set.ordered}
    return ", ".join(use for use, holds in uses.items() if holds)
