"""Objects within records as schemas of their own: generated clients name their types after these."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/{}"


def apart(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Return schemas in which every object that has a title is a reference, and before them those objects.

    Raise ValueError where two that differ have the same title.
    """
    found: dict[str, Schema] = {}
    pointing = {name: _pointing(schema, found) for name, schema in schemas.items()}
    if twice := found.keys() & pointing.keys():
        raise ValueError(f"{sorted(twice)} are names of records, and of objects within them")
    return found | pointing


def _pointing(schema: Schema, found: dict[str, Schema]) -> Schema:
    """Return a schema of an object or an array with references in place of the titled objects among its members."""
    if "properties" in schema:
        members = {name: _member(member, found) for name, member in schema["properties"].items()}
        return {**schema, "properties": members}
    return {**schema, "items": _member(schema["items"], found)} if "items" in schema else schema


def _member(schema: Schema, found: dict[str, Schema]) -> Schema:
    if "title" not in schema:
        return _pointing(schema, found)
    types, described = schema["type"], {name: schema[name] for name in ("description",) if name in schema}
    named = {"type": "object"} | {name: schema[name] for name in ("properties", "required")}
    reference = {"$ref": REFERENCE.format(schema["title"])}
    if found.setdefault(schema["title"], named) != named:
        raise ValueError(f"two objects are called {schema['title']}")
    return {"anyOf": [reference, {"type": "null"}], **described} if "null" in types else {**reference, **described}
