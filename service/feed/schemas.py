"""What the OpenAPI schemas of changes and of published files share: tokens, digests, and types of parameters."""

from collections.abc import Callable
from typing import Any

from service.feed.parameters import (
    CHANGE_GROUPS,
    FEED_KEY_PATTERN,
    MAX_TOKENS_LENGTH,
    PREFIXES_PATTERN,
    RESOURCE_NAMES,
    BucketPrefixes,
    ChangeGroups,
    FeedKeyParameter,
    FeedTokens,
    ResourceList,
)
from service.parameters import Parameter

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
HASH: Schema = {"type": "string", "pattern": "^[0-9a-f]{16}$", "examples": ["9f86d081884c7d65"]}
TOKEN: Schema = _TEXT | {
    "description": "The position to continue from<!-- with changes -->: send it as since of /changes<!-- end -->.",
    "examples": ["lAHECB89h1GiDMTTzmsChaWBBJMACAg"],
}
SCHEMA_HASH: Schema = HASH | {
    "description": "A hash of the fields of the resource: another one means that fields were added."
}
AS_OF: Schema = _TEXT | {
    "format": "date-time",
    "description": "The moment of which the records are.",
    "examples": ["2026-11-24T02:14:59.204Z"],
}
# No `enum`: generated clients reject values that a later version adds.
RESOURCE_NAME: Schema = _TEXT | {
    "description": f"The resource. One of: {', '.join(RESOURCE_NAMES)}.",
    "examples": ["listings"],
}
DIGEST: Schema = HASH | {"description": "The sum of the hashes of the records, modulo 2**64."}


def object_schema(properties: dict[str, Schema], *optional: str, description: str = "") -> Schema:
    """Return the schema of an object; all of its properties are required except the optional ones."""
    required = [name for name in properties if name not in optional]
    described = {"description": description} if description else {}
    return {"type": "object", **described, "properties": properties, "required": required}


_ONE_NAME = f"({'|'.join(RESOURCE_NAMES)})"
_ONE_GROUP = f"({'|'.join(CHANGE_GROUPS)})"
# By exact type.
PARAMETERS: dict[type[Parameter], Callable[[Any], Schema]] = {
    FeedTokens: lambda _: {"type": "string", "pattern": f"^[A-Za-z0-9_,-]{{1,{MAX_TOKENS_LENGTH}}}$"},
    ResourceList: lambda _: {
        "type": "string",
        "pattern": f"^{_ONE_NAME}(,{_ONE_NAME}){{0,{len(RESOURCE_NAMES) - 1}}}$",
    },
    ChangeGroups: lambda _: {
        "type": "string",
        "pattern": f"^{_ONE_GROUP}(,{_ONE_GROUP}){{0,{len(CHANGE_GROUPS) - 1}}}$",
    },
    BucketPrefixes: lambda _: {"type": "string", "pattern": f"^{PREFIXES_PATTERN}$"},
    FeedKeyParameter: lambda _: {"type": "string", "pattern": f"^{FEED_KEY_PATTERN}$"},
}
IN_PATH: dict[str, Schema] = {
    "resource": {"description": "The name of a resource.", "schema": {"type": "string", "enum": list(RESOURCE_NAMES)}},
}
