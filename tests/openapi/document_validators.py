"""The document as tests read it: its operations, and the schemas that bodies are held against."""

from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from service.capabilities import installed_capabilities
from service.openapi.document import document

CAPABILITIES = installed_capabilities()
DOCUMENT = document(CAPABILITIES)
GET_OPERATIONS: dict[str, dict[str, Any]] = {path: item["get"] for path, item in DOCUMENT["paths"].items()}

JSON = "application/json"
GEOJSON = "application/geo+json"
PROBLEM = "application/problem+json"
_NAME = "urn:openapi"
_REGISTRY: Registry[Any] = Registry().with_resource(_NAME, DRAFT202012.create_resource(DOCUMENT))


def validator(schema: dict[str, Any]) -> Draft202012Validator:
    """Return what holds values against a schema without references, or with whole ones; formats included."""
    return Draft202012Validator(schema, registry=_REGISTRY, format_checker=Draft202012Validator.FORMAT_CHECKER)


def component_validator(name: str) -> Draft202012Validator:
    """Return what holds bodies against a named schema."""
    return validator({"$ref": f"{_NAME}#/components/schemas/{name}"})


def body_validator(path: str, status: int, media_type: str = JSON) -> Draft202012Validator:
    """Return what holds bodies against what is promised of a status of an operation; problems have a type of theirs."""
    contents = documented_response(path, status)["content"]
    schema = contents[media_type if media_type in contents else PROBLEM]["schema"]
    return validator({"anyOf": [_whole(branch) for branch in schema.get("anyOf", [schema])]})


def _whole(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "$ref": _NAME + schema["$ref"]} if "$ref" in schema else schema


def documented_response(path: str, status: int) -> dict[str, Any]:
    """Return the response of a status; KeyError where it is not described."""
    found: dict[str, Any] = GET_OPERATIONS[path]["responses"][str(status)]
    while "$ref" in found:
        place: Any = DOCUMENT
        for step in found["$ref"].removeprefix("#/").split("/"):
            place = place[step]
        found = place
    return found


def absolute_path(path: str) -> str:
    """Return a path below the root that it is served at."""
    root = GET_OPERATIONS[path].get("servers", DOCUMENT["servers"])[0]["url"]
    return str(root).rstrip("/") + path
