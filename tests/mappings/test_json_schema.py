"""JSON Schemas of answered records: valid themselves, satisfied by empty records, open to further fields."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mappings import AGENT, LISTING, RESOURCES, Resource
from mappings.fields import View
from mappings.record_schema import record_schema

VARIANTS = [(resource, view, underscored) for resource in RESOURCES for view in View for underscored in (False, True)]
_variants = pytest.mark.parametrize(
    ("resource", "view", "underscored"), VARIANTS, ids=lambda part: str(getattr(part, "alias", part))
)


def schema(resource: Resource, view: View, underscored: bool) -> dict[str, Any]:
    return record_schema(resource, view, underscored=underscored)


def empty(resource: Resource, view: View, underscored: bool) -> dict[str, Any]:
    """Return a record of the variant without any value but its identifier."""
    return {
        field.underscored if underscored else field.name: "id"
        if field.name == resource.identifier
        else field.empty_value
        for field in resource.view(view)
    }


def accepts(schema: dict[str, Any], record: dict[str, Any]) -> bool:
    """Whether a value satisfies a schema, formats included."""
    return bool(Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER).is_valid(record))


@_variants
def test_the_schema_is_itself_valid(resource: Resource, view: View, underscored: bool) -> None:
    Draft202012Validator.check_schema(schema(resource, view, underscored))
    assert list(schema(resource, view, underscored)["properties"]) == list(empty(resource, view, underscored))


@_variants
def test_a_record_without_values_satisfies_the_schema(resource: Resource, view: View, underscored: bool) -> None:
    assert accepts(schema(resource, view, underscored), empty(resource, view, underscored))


@_variants
def test_a_field_added_later_does_not_break_the_schema(resource: Resource, view: View, underscored: bool) -> None:
    assert accepts(schema(resource, view, underscored), empty(resource, view, underscored) | {"added_later": 1})


@_variants
def test_every_field_must_be_there_but_those_that_exist_on_request(
    resource: Resource, view: View, underscored: bool
) -> None:
    on_request = {field.name for fields in resource.flags[view].values() for field in fields}
    for name in empty(resource, view, underscored):
        record = {key: value for key, value in empty(resource, view, underscored).items() if key != name}
        assert accepts(schema(resource, view, underscored), record) is (name in on_request)


@pytest.mark.parametrize(
    ("resource", "wrong"),
    [
        (LISTING, {"PlatformListingId": None}),
        (LISTING, {"ListPrice": "350000"}),
        (LISTING, {"ListPrice": 1.5}),
        (LISTING, {"PoolYN": 1}),
        (LISTING, {"CreatedDate": "yesterday"}),
        (LISTING, {"PropertyFeatures": None}),
        (LISTING, {"ListingImages": [{"FullURL": None}]}),
        (LISTING, {"SharedPartnerData": {"attribute_1": "a"}}),
        (AGENT, {"email_addresses": []}),
        (AGENT, {"languages": None}),
    ],
)
def test_a_wrong_value_does_not_satisfy_the_schema(resource: Resource, wrong: dict[str, Any]) -> None:
    record = empty(resource, View.INDEX, False)
    assert wrong.keys() <= record.keys()
    assert not accepts(schema(resource, View.INDEX, False), record | wrong)


def test_members_are_underscored_with_their_record() -> None:
    images = schema(LISTING, View.INDEX, True)["properties"]["listing_images"]
    assert (
        {"full_url", "is_main_listing_image"} <= set(images["items"]["required"]) == set(images["items"]["properties"])
    )
