"""The field dictionary, in Markdown: drawn from the declarations that answers are made by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import FIELD_GROUPS
from mappings.fields import Field, Kind, View
from service.openapi.answers import resource_of
from service.resources import OPERATIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mappings.resource import Resource

_TYPES = {
    Kind.STRING: "string",
    Kind.DATE: "string, `YYYY-MM-DD`",
    Kind.DATE_TIME: "string, ISO 8601",
    Kind.INTEGER: "integer",
    Kind.UNIX: "integer, unix seconds",
    Kind.NUMBER: "number",
    Kind.BOOLEAN: "boolean",
    Kind.UNTYPED: "not stated",
    Kind.OBJECT: "object",
    Kind.STRINGS: "array of strings",
    Kind.OBJECTS: "array of objects",
    Kind.UNTYPED_LIST: "array",
}
_HEAD = ("| Field | Type | Without a value | In | Notes |", "|---|---|---|---|---|")


def dictionary() -> str:
    """Return a section for each resource with a row for each field, members of objects included."""
    return "\n".join(line for resource in _resources() for line in _section(resource))


def field_groups() -> str:
    """Return a table of the groups that a key can be refused, and of what is in each."""
    rows = (f"| `{group}` | {', '.join(_of_group(group))} |" for group in sorted(FIELD_GROUPS))
    return "\n".join(("| Group | Fields |", "|---|---|", *rows))


def anchor(resource: Resource, path: str) -> str:
    """Return the anchor of a field; `path` holds its name, behind those of the objects that it is a member of."""
    return f"{resource.alias}-{path}"


def _resources() -> Iterator[Resource]:
    """Yield each resource once, in the order of the operations."""
    yield from dict.fromkeys(map(resource_of, OPERATIONS))


def _of_group(group: str) -> Iterator[str]:
    for resource in _resources():
        for field in resource.fields:
            if field.group == group:
                yield f"[`{field.name}`](#{anchor(resource, field.name)}) of {resource.alias.replace('_', ' ')}"


def _section(resource: Resource) -> Iterator[str]:
    yield f"\n## {resource.alias.replace('_', ' ').capitalize()}\n"
    yield f"Identifier and order: `{resource.identifier}`. {_brief(resource)}\n"
    yield from _HEAD
    for field in resource.fields:
        yield from _rows(resource, field, field, field.name)


def _brief(resource: Resource) -> str:
    names = ", ".join(f"`{name}`" for name in resource.timestamps)
    return f"`timestamps_only` answers {names}, `last_updated` and `modification_timestamp`." if names else ""


def _rows(resource: Resource, outer: Field, field: Field, path: str) -> Iterator[str]:
    """Yield the row of a field and those of its members; where it is answered is said by the outermost."""
    name = f'<code id="{anchor(resource, path)}">{path}</code>'
    empty = "`[]`" if field.kind.is_list else "`null`"
    notes = " ".join(_notes(resource, field))
    yield f"| {name} | {_TYPES[field.kind]} | {empty} | {_views(outer)} | {notes} |"
    for member in field.members:
        yield from _rows(resource, outer, member, f"{path}.{member.name}")


def _views(field: Field) -> str:
    return ", ".join(view for view in View if view in field.views)


def _notes(resource: Resource, field: Field) -> Iterator[str]:
    if field.note:
        yield field.note
    if field.flag is not None:
        condition = "Only there if" if field.flag.vanishes else "Empty unless"
        place = "" if field.flag.views >= field.views else f" in the {', '.join(sorted(field.flag.views))}"
        yield f"{condition} `{field.flag.parameter}` is sent{place}."
    if field.group:
        yield f"Field group `{field.group}`."
    if field.name in resource.volatile:
        yield "A change of it alone is no update."
