"""Tables of the documentation, derived from the declarations."""

from collections.abc import Iterator
from typing import Any

import orjson

from mappings import FIELD_GROUPS
from mappings.fields import Field, FieldKind, View
from mappings.resource import Resource
from service.errors import ApiError
from service.examples import example_record
from service.operation import Operation
from service.resources import OPERATIONS
from service.resources.responses import Envelope, response_of

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
FIELD_TABLE = ("| Field | Type | Meaning | Example |", "|---|---|---|---|")
# Longer examples are cut.
_MOST_CHARACTERS = 60
_ONLY_IN = {View.INDEX: "In lists only.", View.SHOW: "In single records only."}


def field_tables() -> str:
    """Return a section for each resource with a row for each field, members of objects included."""
    return "\n".join(line for resource in _resources() for line in _section(resource))


def field_group_table() -> str:
    rows = (f"| `{group}` | {', '.join(_group_fields(group))} |" for group in sorted(FIELD_GROUPS))
    return "\n".join(("| Group | Fields |", "|---|---|", *rows))


def field_anchor(resource: Resource, path: str) -> str:
    return f"{resource.alias}-{path}"


def field_entries() -> Iterator[tuple[Resource, str, Field]]:
    for resource in _resources():
        for path, field in field_paths(resource):
            yield resource, path, field


def field_type(field: Field) -> str:
    return _TYPE_LABELS[field.kind].replace("`", "")


def field_paths(resource: Resource) -> Iterator[tuple[str, Field]]:
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
    yield from FIELD_TABLE
    records = [example_record(resource, view, underscored=False) for view in View]
    for field in resource.fields:
        values = [record[field.name] for record in records if record.get(field.name) not in (None, [])]
        yield from _rows(resource, field, field, field.name, next(iter(values), None))
    yield "\n</details>"


def _timestamps_note(resource: Resource) -> str:
    names = ", ".join(f"`{name}`" for name in resource.timestamps)
    return f"`timestamps_only` returns {names}, `last_updated` and `modification_timestamp`." if names else ""


def _rows(resource: Resource, outer: Field, field: Field, path: str, value: Any) -> Iterator[str]:
    """Yield the row of a field, with an example, and those of its members, which share the views of the outermost."""
    name = f'<code id="{field_anchor(resource, path)}">{path}</code>'
    notes = " ".join(_notes(resource, outer, field)).replace("|", "\\|")
    example = "" if field.members else example_cell(field.example if value in (None, []) else value)
    yield f"| {name} | {_TYPE_LABELS[field.kind]} | {notes} | {example} |"
    inner = value[0] if isinstance(value, list) and value else value
    for member in field.members:
        yield from _rows(resource, outer, member, f"{path}.{member.name}", inner and inner[member.name])


def example_cell(value: object) -> str:
    """Return a value as JSON in a cell of a table, cut if it is long."""
    text = orjson.dumps(value).decode()
    cut = text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + "…"
    return f"`{cut}`".replace("|", "\\|")


def text_cell(schema: dict[str, Any]) -> str:
    """Return the description of a schema in a cell of a table."""
    return str(schema.get("description", "")).replace("|", "\\|").replace("<", "&lt;")


def _notes(resource: Resource, outer: Field, field: Field) -> Iterator[str]:
    yield field.note
    if field.values:
        yield f"One of: {', '.join(field.values)}."
    if len(outer.views) == 1:
        yield _ONLY_IN[next(iter(outer.views))]
    if field.flag is not None:
        where = "" if field.flag.views >= field.views else " for a list"
        yield f"Present only if `{field.flag.parameter}` is sent{where}."
    if field.group:
        yield f"Field group `{field.group}`."
    if field.name in resource.volatile:
        yield "A change of this field alone does not count as an update."


_PAGE_SIZE, _PAGE_NUMBER = "page_size", "page_number"


def operations() -> str:
    """Return a table row for each operation of the contract: path, result and paging."""
    return "\n".join(
        f"| [`{operation.path}`]({_reference(operation)}) | {_result(operation)} | {_paging(operation)} |"
        for operation in OPERATIONS
    )


def parameter_tables() -> str:
    """Return a table of parameters for each operation: what a deployment without an OpenAPI document has instead."""
    return "\n".join(line for operation in OPERATIONS for line in _parameter_table(operation))


def _parameter_table(operation: Operation) -> Iterator[str]:
    yield from (f"### `{operation.path}`\n", "| Parameter | Meaning |", "|---|---|")
    for name, field in sorted(operation.schema.fields.items(), key=lambda named: not named[1].required):
        required = " Required." if field.required else ""
        yield f"| `{name}` | {field.metadata['description']}{required} |"
    yield ""


def _reference(operation: Operation) -> str:
    return f"/docs/reference/{response_of(operation).operation_id.replace('_', '-')}"


def _result(operation: Operation) -> str:
    response = response_of(operation)
    forms = {
        Envelope.NONE: f"one {response.resource.title}",
        Envelope.ARRAY: "an array",
        Envelope.NUMBERED_PAGE: f'`{{"page_number", "total_pages", "{response.resource.alias}"}}`',
        Envelope.WALK_PAGE: '`{"FinalPage", "Listings"}`',
    }
    first, *others = (forms[envelope] for envelope in response.envelopes(operation.schema))
    return "".join((first, *(f", or with `envelope=true` {other}" for other in others)))


def _paging(operation: Operation) -> str:
    fields = operation.schema.fields
    if _PAGE_SIZE not in fields:
        return ""
    size = fields[_PAGE_SIZE].load_default
    if _PAGE_NUMBER not in fields:
        return f"by last identifier, {size} per page"
    return f"by number, {size} per page" if size else f"by number if you send `{_PAGE_NUMBER}` or `{_PAGE_SIZE}`"


def problem_codes() -> dict[str, type[ApiError]]:
    classes = sorted(_error_classes(ApiError), key=lambda kind: (kind.status, kind.code))
    return {kind.code: kind for kind in classes if kind.__module__.startswith("service.")}


def problem_table() -> str:
    rows = (f"| {kind.status} | [`{code}`](#{code}) | {kind.title} |" for code, kind in problem_codes().items())
    return "\n".join(("| Status | Code | Title |", "|---|---|---|", *rows))


def _error_classes(kind: type[ApiError]) -> Iterator[type[ApiError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from _error_classes(subclass)
