"""Extracts nested objects into named schemas, after which generated clients name their types."""

from typing import Any

Schema = dict[str, Any]

SCHEMA_REFERENCE = "#/components/schemas/{}"


def extract_titled_schemas(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """Return the schemas with every titled object replaced by a reference, preceded by these objects.

    Raise ValueError if two different objects have the same title.
    """
    extracted: dict[str, Schema] = {}
    referencing = {name: _with_references(schema, extracted) for name, schema in schemas.items()}
    if duplicates := extracted.keys() & referencing.keys():
        raise ValueError(f"{sorted(duplicates)} name both records and nested objects")
    return extracted | referencing


def _with_references(schema: Schema, extracted: dict[str, Schema]) -> Schema:
    """Return a schema with references for the titled objects among its members."""
    if "properties" in schema:
        members = {name: _member_schema(member, extracted) for name, member in schema["properties"].items()}
        return {**schema, "properties": members}
    return {**schema, "items": _member_schema(schema["items"], extracted)} if "items" in schema else schema


def _member_schema(schema: Schema, extracted: dict[str, Schema]) -> Schema:
    if "title" not in schema:
        return _with_references(schema, extracted)
    types, described = schema["type"], {name: schema[name] for name in ("description",) if name in schema}
    named = {"type": "object"} | {name: schema[name] for name in ("properties", "required")}
    reference = {"$ref": SCHEMA_REFERENCE.format(schema["title"])}
    if extracted.setdefault(schema["title"], named) != named:
        raise ValueError(f"two different objects have the title {schema['title']}")
    return {"anyOf": [reference, {"type": "null"}], **described} if "null" in types else {**reference, **described}
