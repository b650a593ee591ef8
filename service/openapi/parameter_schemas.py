"""The OpenAPI schemas of query parameters.

`tests/openapi/test_parameter_schemas.py` compares schema and parser value by value.
"""

import re
from collections.abc import Callable
from typing import Any

from apispec.ext.marshmallow import MarshmallowPlugin

from mappings.legends import PROPERTY_TYPES
from service.feed.parameters import (
    FEED_KEY_PATTERN,
    MAX_TOKENS_LENGTH,
    PREFIXES_PATTERN,
    RESOURCE_NAMES,
    BucketPrefixes,
    FeedKeyParameter,
    FeedTokens,
    ResourceList,
)
from service.parameters.types import (
    Boolean,
    Choice,
    Cursor,
    Parameter,
    PropertyTypes,
    QualifiedText,
    Text,
    UnixSecond,
    Uuid,
    WholeNumber,
)

Schema = dict[str, Any]

_CHARACTERS = r"[^\u0000-\u001f\u007f-\u009f]"
_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": f"^{_CHARACTERS}+$"}
_UUID: Schema = {"type": "string", "format": "uuid", "pattern": "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"}
_ONE_NAME = f"({'|'.join(RESOURCE_NAMES)})"
_ONE_TYPE = f"({'|'.join(map(str, PROPERTY_TYPES))})"


def _whole_number(field: Any) -> Schema:
    return {"type": "integer", "minimum": field.minimum, "maximum": field.maximum}


_IDENTIFIER: Schema = {"description": "The identifier.", "schema": _TEXT}
_IN_PATH: dict[str, Schema] = {
    "resource": {"description": "The name of a resource.", "schema": {"type": "string", "enum": list(RESOURCE_NAMES)}},
    "file": {"description": "The name of a file, as the list of files has it.", "schema": _TEXT},
}

# By exact parameter type: a type that is missing here fails when the document is built.
_SCHEMAS: dict[type[Parameter], Callable[[Any], Schema]] = {
    Text: lambda _: dict(_TEXT),
    Cursor: lambda _: dict(_TEXT) | {"pattern": r"^[^\u0000-\u001f\u007f]+$"},
    QualifiedText: lambda _: {"type": "string", "pattern": f"^([A-Za-z0-9_-]{{1,64}}:)?{_CHARACTERS}{{1,128}}$"},
    Uuid: lambda _: dict(_UUID),
    Boolean: lambda _: {"type": "boolean"},
    WholeNumber: _whole_number,
    UnixSecond: _whole_number,
    Choice: lambda field: {"type": "string", "enum": list(field.choices)},
    FeedTokens: lambda _: {"type": "string", "pattern": f"^[A-Za-z0-9_,-]{{1,{MAX_TOKENS_LENGTH}}}$"},
    ResourceList: lambda _: {
        "type": "string",
        "pattern": f"^{_ONE_NAME}(,{_ONE_NAME}){{0,{len(RESOURCE_NAMES) - 1}}}$",
    },
    BucketPrefixes: lambda _: {"type": "string", "pattern": f"^{PREFIXES_PATTERN}$"},
    FeedKeyParameter: lambda _: {"type": "string", "pattern": f"^{FEED_KEY_PATTERN}$"},
    # A string as in the contract: for an array some generated clients send one parameter per element, whatever
    # `explode` says.
    PropertyTypes: lambda _: {
        "type": "string",
        "pattern": f"^{_ONE_TYPE}(,{_ONE_TYPE}){{0,{len(PROPERTY_TYPES) - 1}}}$",
    },
}


def parameter_plugin() -> MarshmallowPlugin:
    """Return the apispec plugin that describes our parameters."""
    return _ParameterPlugin()


def path_parameters(path: str) -> list[Schema]:
    """Return the parameters of a path template: a resource name, or an identifier."""
    return [
        {"in": "path", "name": name, "required": True, **_IN_PATH.get(name, _IDENTIFIER)}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


class _ParameterPlugin(MarshmallowPlugin):
    """Replaces apispec's own schemas of our fields, which would allow null."""

    def init_spec(self, spec: Any) -> None:
        super().init_spec(spec)
        assert self.converter is not None  # noqa: S101 - made by the line above
        self.converter.add_attribute_function(_parameter_schema)  # type: ignore[no-untyped-call]


def _parameter_schema(_: object, field: Parameter, ret: Schema) -> Schema:
    ret.clear()
    default = {} if field.required or field.load_default is None else {"default": field.load_default}
    return {"description": field.metadata["description"], **_SCHEMAS[type(field)](field), **default}
