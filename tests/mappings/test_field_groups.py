"""The groups of fields that a key can be refused: what is in them, and that nothing else is made of it."""

import pytest

from mappings import AGENT, FIELD_GROUPS, LISTING, RESOURCES, Resource
from mappings.fields import Field, View
from mappings.record_schema import record_schema

# Issue 6, optional field permissions.
GROUPS: dict[str, dict[Resource, set[str]]] = {
    "commission": {
        LISTING: {"BuyerCommissionType", "BuyerCommissionValue"},
        AGENT: {"buyer_commission_rate", "seller_commission_rate"},
    },
    "access_level": {AGENT: {"access_level", "view_level"}},
    "goals": {AGENT: {"gci_goal"}},
    "partner_data": {LISTING: {"SharedPartnerData"}, AGENT: {"partners"}},
}
_each = pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)


def guarded(resource: Resource) -> set[str]:
    """Return the names of a resource's guarded members."""
    return {field.name for field in resource.fields if field.group}


def nested(fields: tuple[Field, ...]) -> list[Field]:
    """Return the members of members, at any depth."""
    return [inner for field in fields for inner in (*field.members, *nested(field.members))]


def test_there_are_these_groups() -> None:
    assert set(GROUPS) == FIELD_GROUPS


@_each
def test_each_holds_these_fields(resource: Resource) -> None:
    declared = {field.name: field.group for field in resource.fields if field.group}
    assert declared == {name: group for group, held in GROUPS.items() for name in held.get(resource, ())}


@_each
def test_only_members_of_a_record_are_guarded(resource: Resource) -> None:
    """An empty member is all that answers know; one of a nested object would stay in it."""
    assert [field.name for field in nested(resource.fields) if field.group] == []


@_each
def test_nothing_is_found_sorted_or_read_back_by_what_is_guarded(resource: Resource) -> None:
    """Who may filter by a value learns it. Such a filter would need a parameter that is guarded as well."""
    assert [field.name for field in resource.indexed_fields if guarded(resource) & {*field.sources}] == []
    assert not guarded(resource) & {resource.identifier, *resource.timestamps}


@_each
@pytest.mark.parametrize("view", View)
def test_the_schema_says_what_may_be_empty(resource: Resource, view: View) -> None:
    schemas = record_schema(resource, view)["properties"]
    assert isinstance(schemas, dict)
    described = {name for name, schema in schemas.items() if "may not see" in schema.get("description", "")}
    assert described == guarded(resource) & set(schemas)
