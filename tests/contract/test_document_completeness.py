"""What the served document describes is what the service has, counted: operations, parameters, fields of answers.

What is described is read from the served JSON alone. What there is comes from the running service: its routes, the
parameters that it does not call unknown, the members of its answers; the contract's tables have the last word.
"""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from service.changes.capability import CAPABILITY as CHANGES
from service.errors import MAX_FAULTS
from service.exports.operations import EXPORT_OPERATIONS
from service.history.capability import CAPABILITY as HISTORY
from service.openapi.schemas import response_bodies
from service.reso.operations import BATCH_PATH, RESO_OPERATIONS
from service.resources import OPERATIONS
from tests.contract.request_variants import request_parameters, request_paths
from tests.contract.test_fields import GOALS, SOLD_OPEN_HOUSE_LACKS, fields, members_of
from tests.contract.world import World

_ROOT = "/v1"
_NO_PARAMETER = "is not a parameter of this operation."
_ALL = (*OPERATIONS, *CHANGES.operations, *HISTORY.operations, *EXPORT_OPERATIONS)
# The operations of the contract by path; resources beyond it have no table.
_VARIANTS = {
    "/listings": "listings",
    "/listings/{platform_listing_id}": "listing",
    "/sold_listings": "sold_listings",
    "/sold_listings/{platform_listing_id}": "sold_listing",
    "/agents": "agents",
    "/agents/{guid}": "agent",
    "/offices": "offices",
    "/offices/{platform_office_id}": "office",
    "/teams": "teams",
    "/teams/{platform_team_id}": "team",
    "/companies": "companies",
    "/companies/{platform_company_id}": "company",
}


@pytest.fixture(scope="module")
async def served(world: World) -> dict[str, Any]:
    """The document as a partner gets it."""
    async with world.http.get(f"{_ROOT}/openapi.json") as answered:
        document: dict[str, Any] = await answered.json()
    return document


def _guarded(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the described operations that need a key."""
    gets = {path: item["get"] for path, item in document["paths"].items()}
    return {path: described for path, described in gets.items() if described.get("security") != []}


def _described_members(document: dict[str, Any], schema: dict[str, Any], above: str = "") -> Iterator[str]:
    """Yield the members that a schema describes, each behind those it lies in, such as `Listings/OpenHouse/Date`."""
    schemas = document["components"]["schemas"]
    for part in (schema, *schema.get("anyOf", ())):
        whole = schemas[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        if whole is not schema:
            yield from _described_members(document, whole, above)
    if "items" in schema:
        yield from _described_members(document, schema["items"], above)
    for name, member in schema.get("properties", {}).items():
        yield f"{above}{name}"
        yield from _described_members(document, member, f"{above}{name}/")


def _members(value: Any, above: str = "") -> Iterator[str]:
    """Yield the members of an answer, in the same way."""
    for element in value if isinstance(value, list) else [value]:
        if isinstance(element, dict):
            for name, member in element.items():
                yield f"{above}{name}"
                yield from _members(member, f"{above}{name}/")


def test_operations(world: World, served: dict[str, Any]) -> None:
    routes = {route.resource.canonical for route in world.http.app.router.routes() if route.resource}
    implemented = {path.removeprefix(_ROOT) for path in routes if path.startswith(_ROOT)} - {"/openapi.json", ""}
    # The RESO Web API describes itself, in OData's own document: tests/odata holds its answers against that.
    odata = {BATCH_PATH, *(operation.path for operation in RESO_OPERATIONS)}
    assert odata < implemented
    implemented -= odata
    assert implemented == _guarded(served).keys() == {operation.path for operation in _ALL}
    assert _VARIANTS.keys() <= implemented
    print(f"\noperations: {len(implemented)} implemented = described")


async def test_parameters(world: World, served: dict[str, Any]) -> None:
    described = {
        path: {(parameter["in"], parameter["name"]) for parameter in operation["parameters"]}
        for path, operation in _guarded(served).items()
    }
    names = {name for found in described.values() for _, name in found} | {
        name for operation in _ALL for name in operation.schema.fields
    }
    implemented = {path: {("path", name) for name in re.findall(r"{(\w+)}", path)} for path in described}
    for operation in _ALL:
        path = operation.path.replace("{resource}", "listings").replace("{file}", "any")
        path = request_paths(world, operation)[0] if operation in OPERATIONS else path
        unknown = set[str]()
        # Faults beyond the limit are not listed.
        for at in range(0, len(names), MAX_FAULTS - 1):
            some = sorted(names)[at : at + MAX_FAULTS - 1]
            reply = await world.get(path, **dict.fromkeys(some, ""), **{"a decoy": ""})
            unknown |= {fault["parameter"] for fault in reply.body["errors"] if _NO_PARAMETER in fault["message"]}
            assert "a decoy" in unknown
        implemented[operation.path] |= {("query", name) for name in names - unknown}
    assert implemented == described
    print(f"\nparameters: {sum(map(len, implemented.values()))} implemented = described")


async def test_fields_of_answers(world: World, served: dict[str, Any]) -> None:
    count = 0
    for operation in OPERATIONS:
        content = _guarded(served)[operation.path]["responses"]["200"]["content"]["application/json"]
        for form in response_bodies(operation):
            answers = [
                await world.answer(path, **request_parameters(world, operation, form))
                for path in request_paths(world, operation)
            ]
            named = {"$ref": f"#/components/schemas/{form.name}"}
            assert named in content["schema"].get("anyOf", [content["schema"]])
            described = set(_described_members(served, named))
            # Of what the contract shows no shape, such as the elements of `teams`, nothing is described.
            shaped = {"", *(member.rpartition("/")[0] for member in described)}
            found = {member for answer in answers for member in _members(answer)}
            implemented = {member for member in found if member.rpartition("/")[0] in shaped}
            assert implemented == described, f"{operation.path} {form.name}"
            count += len(implemented)
    print(f"\nfields of answers, in all forms: {count} implemented = described")


def test_fields_of_the_contract(served: dict[str, Any]) -> None:
    """The default form of each operation against the contract's tables, to the inmost member."""
    count = 0
    for operation in (operation for operation in OPERATIONS if operation.path in _VARIANTS):
        named = {"$ref": f"#/components/schemas/{response_bodies(operation)[0].records.name}"}
        expected = _of_the_tables(_VARIANTS[operation.path])
        assert set(_described_members(served, named)) == expected, operation.path
        count += len(expected)
    print(f"\nfields of records, in the default forms: {count} of the contract = described")


def _of_the_tables(variant: str) -> set[str]:
    found = set(GOALS) if variant == "agent" else set()
    for name, cell in fields(variant).items():
        members = members_of(cell) - (SOLD_OPEN_HOUSE_LACKS if variant.startswith("sold") else set())
        found |= {name, *(f"{name}/{member}" for member in members)}
    return found
