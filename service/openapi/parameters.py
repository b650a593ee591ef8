"""From the fields that read parameters to the schemas that describe them.

`tests/openapi/test_parameters.py` holds both against each other, value by value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from apispec.ext.marshmallow import MarshmallowPlugin

from mappings.legends import PROPERTY_TYPES
from service.parameters.feed import FEED_KEY, LONGEST_TOKENS, NAMES, PREFIXES, FeedKey, Prefixes, Resources, Tokens
from service.parameters.fields import Choice, Parameter, PropertyTypes, Text, Truth, UnixSecond, Uuid, WholeNumber

if TYPE_CHECKING:
    from collections.abc import Callable

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 128, "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$"}
_UUID: Schema = {"type": "string", "format": "uuid", "pattern": "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"}
_ONE_NAME = f"({'|'.join(NAMES)})"
_ONE_TYPE = f"({'|'.join(map(str, PROPERTY_TYPES))})"


def _whole_number(field: Any) -> Schema:
    return {"type": "integer", "minimum": field.least, "maximum": field.most}


_IDENTIFIER: Schema = {"description": "The identifier.", "schema": _TEXT}
_IN_PATH: dict[str, Schema] = {
    "resource": {"description": "The name of a resource.", "schema": {"type": "string", "enum": list(NAMES)}}
}

# Each type of parameter by itself: what is not in it cannot be described, and fails as soon as the document is made.
_SCHEMAS: dict[type[Parameter], Callable[[Any], Schema]] = {
    Text: lambda _: dict(_TEXT),
    Uuid: lambda _: dict(_UUID),
    Truth: lambda _: {"type": "boolean"},
    WholeNumber: _whole_number,
    UnixSecond: _whole_number,
    Choice: lambda field: {"type": "string", "enum": list(field.choices)},
    Tokens: lambda _: {"type": "string", "pattern": f"^[A-Za-z0-9_,-]{{1,{LONGEST_TOKENS}}}$"},
    Resources: lambda _: {"type": "string", "pattern": f"^{_ONE_NAME}(,{_ONE_NAME}){{0,{len(NAMES) - 1}}}$"},
    Prefixes: lambda _: {"type": "string", "pattern": f"^{PREFIXES}$"},
    FeedKey: lambda _: {"type": "string", "pattern": f"^{FEED_KEY}$"},
    # The text that is sent, as the contract has it: from an array some generated clients make a parameter for each
    # element, whatever `explode` says.
    PropertyTypes: lambda _: {
        "type": "string",
        "pattern": f"^{_ONE_TYPE}(,{_ONE_TYPE}){{0,{len(PROPERTY_TYPES) - 1}}}$",
    },
}


def plugin() -> MarshmallowPlugin:
    """Return apispec's plugin that describes our parameters; it must be given to the document before it is asked."""
    return _Described()


def in_path(path: str) -> list[Schema]:
    """Return the parameters of a path template: the name of a resource, or an identifier."""
    return [
        {"in": "path", "name": name, "required": True, **_IN_PATH.get(name, _IDENTIFIER)}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


class _Described(MarshmallowPlugin):
    """apispec's own notion of our fields is thrown away: they accept texts, and null can be no value of any."""

    def init_spec(self, spec: Any) -> None:
        super().init_spec(spec)
        assert self.converter is not None  # noqa: S101 - made by the line above
        self.converter.add_attribute_function(_described)  # type: ignore[no-untyped-call]
        self.converter.add_parameter_attribute_function(_announced)


def _described(_: object, field: Parameter, ret: Schema) -> Schema:
    ret.clear()
    default = {} if field.required or field.load_default is None else {"default": field.load_default}
    return {"description": field.metadata["description"], **_SCHEMAS[type(field)](field), **default}


def _announced(_: object, field: Parameter, ret: Schema) -> Schema:  # noqa: ARG001 - apispec's signature
    return {"deprecated": True} if field.deprecation else {}
