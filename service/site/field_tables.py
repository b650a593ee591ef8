"""The field dictionary in Markdown, from the declarations of the resources."""

from collections.abc import Iterator

from mappings import FIELD_GROUPS
from mappings.fields import Field, FieldKind, View
from mappings.resource import Resource
from service.resources import OPERATIONS
from service.resources.response import response_of

_TYPE_LABELS = {
    FieldKind.STRING: "string",
    FieldKind.DATE: "string, `YYYY-MM-DD`",
    FieldKind.DATE_TIME: "string, ISO 8601",
    FieldKind.INTEGER: "integer",
    FieldKind.UNIX: "integer, Unix seconds",
    FieldKind.NUMBER: "number",
    FieldKind.BOOLEAN: "boolean",
    FieldKind.UNTYPED: "unspecified",
    FieldKind.OBJECT: "object",
    FieldKind.STRINGS: "array of strings",
    FieldKind.OBJECTS: "array of objects",
    FieldKind.UNTYPED_LIST: "array",
}
_TABLE_HEADER = ("| Field | Type | If absent | Views | Notes |", "|---|---|---|---|---|")


def field_tables() -> str:
    """Return a section for each resource with a row for each field, members of objects included."""
    return "\n".join(line for resource in _resources() for line in _section(resource))


def field_group_table() -> str:
    """Return a table of the field groups, and of the fields in each."""
    rows = (f"| `{group}` | {', '.join(_group_fields(group))} |" for group in sorted(FIELD_GROUPS))
    return "\n".join(("| Group | Fields |", "|---|---|", *rows))


def field_anchor(resource: Resource, path: str) -> str:
    """Return the anchor of a field; `path` is its dotted name, such as `OpenHouse.Date`."""
    return f"{resource.alias}-{path}"


def field_entries() -> Iterator[tuple[Resource, str, Field]]:
    """Yield every field of every resource with its dotted name."""
    for resource in _resources():
        for path, field in field_paths(resource):
            yield resource, path, field


def field_type(field: Field) -> str:
    """Return the type of a field in words."""
    return _TYPE_LABELS[field.kind].replace("`", "")


def field_paths(resource: Resource) -> Iterator[tuple[str, Field]]:
    """Yield the fields of a resource with their dotted names, members of objects included."""
    for field in resource.fields:
        yield from _paths(field, field.name)


def resource_title(resource: Resource) -> str:
    """Return the heading of a resource, such as `Sold listings`."""
    return resource.alias.replace("_", " ").capitalize()


def _paths(field: Field, path: str) -> Iterator[tuple[str, Field]]:
    yield path, field
    for member in field.members:
        yield from _paths(member, f"{path}.{member.name}")


def _resources() -> Iterator[Resource]:
    """Yield each resource once, in the order of the operations."""
    yield from dict.fromkeys(response_of(operation).resource for operation in OPERATIONS)


def _group_fields(group: str) -> Iterator[str]:
    for resource in _resources():
        for field in resource.fields:
            if field.group == group:
                yield f"[`{field.name}`](#{field_anchor(resource, field.name)}) of {resource.alias.replace('_', ' ')}"


def _section(resource: Resource) -> Iterator[str]:
    yield '\n<details class="fields">\n<summary>\n'
    yield f"## {resource_title(resource)}\n"
    yield f"{sum(1 for _ in field_paths(resource))} fields\n\n</summary>\n"
    yield f"Identifier and order: `{resource.identifier}`. {_timestamps_note(resource)}\n"
    yield from _TABLE_HEADER
    for field in resource.fields:
        yield from _rows(resource, field, field, field.name)
    yield "\n</details>"


def _timestamps_note(resource: Resource) -> str:
    names = ", ".join(f"`{name}`" for name in resource.timestamps)
    return f"`timestamps_only` returns {names}, `last_updated` and `modification_timestamp`." if names else ""


def _rows(resource: Resource, outer: Field, field: Field, path: str) -> Iterator[str]:
    """Yield the row of a field and those of its members, which share the views of the outermost field."""
    name = f'<code id="{field_anchor(resource, path)}">{path}</code>'
    empty = "`[]`" if field.kind.is_list else "`null`"
    notes = " ".join(_notes(resource, field))
    yield f"| {name} | {_TYPE_LABELS[field.kind]} | {empty} | {_views(outer)} | {notes} |"
    for member in field.members:
        yield from _rows(resource, outer, member, f"{path}.{member.name}")


def _views(field: Field) -> str:
    return ", ".join(view for view in View if view in field.views)


def _notes(resource: Resource, field: Field) -> Iterator[str]:
    if field.note:
        yield field.note
    if field.flag is not None:
        views = "" if field.flag.views >= field.views else f" in the {', '.join(sorted(field.flag.views))} view"
        yield f"Present only if `{field.flag.parameter}` is sent{views}."
    if field.group:
        yield f"Field group `{field.group}`."
    if field.name in resource.volatile:
        yield "A change of this field alone does not count as an update."
