"""The rows of typed tables as the declarations and the records give them, without the client's code."""

import datetime as dt
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from mappings import Resource
from mappings.fields import Field, FieldKind, View, underscore
from tests.consumer.tables.conftest import Line

Row = dict[str, Any]
Convert = "Callable[[FieldKind, Any], Any]"


def columns(
    fields: Iterable[Field], values: Any, name: Callable[[str], str], convert: Any
) -> Iterator[tuple[str, Any]]:
    """Yield the columns of a record or object: name and value, as `convert` returns it."""
    for field in fields:
        value = (values or {}).get(field.name)
        if field.kind is FieldKind.OBJECT:
            inner = columns(field.members, value, name, convert)
            yield from ((f"{name(field.name)}_{member}", value) for member, value in inner)
        elif field.kind is not FieldKind.OBJECTS:
            yield name(field.name), convert(field.kind, value)


def own_rows(resource: Resource, lines: Iterable[Line], name: Callable[[str], str], convert: Any) -> list[Row]:
    """Return the rows of a resource's own table, without what the feed says of a record."""
    fields = resource.view(View.INDEX)
    return [dict((*columns(fields, line["record"], name, convert), *decimals(fields, line, name))) for line in lines]


def decimals(fields: Iterable[Field], line: Line, name: Callable[[str], str]) -> Iterator[tuple[str, float | None]]:
    """Yield the second columns of what a record rounds, and of coordinates."""
    for field in fields:
        value = line["record"].get(field.name)
        if field.is_shown_exact:
            yield name(field.name + "Decimal"), line.get("exact", {}).get(field.name, value)
        elif field.name in {"Latitude", "Longitude"}:
            is_number = value is not None and all(each in "-.0123456789" for each in value)
            yield name(field.name + "Decimal"), float(value) if is_number else None


def list_rows(
    resource: Resource, lines: Iterable[Line], name: Callable[[str], str], convert: Any
) -> dict[str, list[Row]]:
    lists = [field for field in resource.view(View.INDEX) if field.kind is FieldKind.OBJECTS]
    return {
        field.name: [
            {"id": line["id"], "position": position, **dict(columns(field.members, item, name, convert))}
            for line in lines
            for position, item in enumerate(line["record"].get(field.name) or ())
        ]
        for field in lists
    }


def in_parquet(kind: FieldKind, value: Any) -> Any:
    if value is None:
        return None
    if kind is FieldKind.DATE:
        return dt.date.fromisoformat(value)
    if kind is FieldKind.DATE_TIME:
        return dt.datetime.fromisoformat(value).astimezone(dt.UTC)
    return text_of(value) if kind in {FieldKind.UNTYPED, FieldKind.UNTYPED_LIST} else value


def in_sqlite(kind: FieldKind, value: Any) -> Any:
    """Return a value as Python reads it from SQLite: JSON for lists and objects."""
    if isinstance(value, bool):
        return int(value)
    return text_of(value) if kind.is_list or isinstance(value, dict) else value


def text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


SPELLINGS: dict[str, Callable[[str], str]] = {"underscored": underscore, "contract": str}
