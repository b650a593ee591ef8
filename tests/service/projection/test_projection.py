"""Response records: variants, flags, underscored keys, and the stored form that passes through unchanged."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings import AGENT, COMPANY, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM, Resource
from mappings.fields import INDEX_ONLY, Field, FieldKind, View
from mappings.record_schema import record_type
from service.projection import Variant, _projection

FLAGS = sorted({*AGENT.flags[View.INDEX], *AGENT.flags[View.SHOW]})


def filled(fields: tuple[Field, ...], samples: Mapping[FieldKind, Any] = MappingProxyType({})) -> dict[str, Any]:
    """Return a record in which every member has a value of its own, or the sample of its kind."""
    return {field.name: samples.get(field.kind) or _value(field, samples) for field in fields}


def _value(field: Field, samples: Mapping[FieldKind, Any] = MappingProxyType({})) -> Any:
    if field.members:
        inner = filled(field.members, samples)
        return [inner, inner] if field.kind is FieldKind.OBJECTS else inner
    return [f"a {field.name}"] if field.kind.is_list else f"the {field.name}"


def answered(variant: Variant, record: dict[str, Any] | None = None) -> dict[str, Any]:
    (encoded,) = variant.encode([orjson.dumps(filled(variant.resource.stored) if record is None else record)])
    parsed: dict[str, Any] = orjson.loads(encoded)
    return parsed


@pytest.mark.parametrize(
    "resource", [LISTING, SOLD_LISTING, OFFICE, TEAM, COMPANY], ids=lambda resource: resource.alias
)
def test_the_stored_form_passes_through_as_the_very_same_list(resource: Resource) -> None:
    records = [b"not even parsed"]
    assert Variant(resource, View.INDEX).encode(records) is records


@pytest.mark.parametrize(
    "variant",
    [
        Variant(LISTING, View.SHOW),
        Variant(LISTING, View.INDEX, underscored=True),
        Variant(SOLD_LISTING, View.SHOW),
        Variant(AGENT, View.INDEX),
        Variant(AGENT, View.INDEX, frozenset(FLAGS)),
        Variant(AGENT, View.SHOW),
    ],
    ids=lambda variant: f"{variant.resource.alias} {variant.view} {len(variant.flags)} {variant.underscored}",
)
def test_every_other_variant_is_converted(variant: Variant) -> None:
    records = [orjson.dumps(filled(variant.resource.stored))]
    assert variant.encode(records) != records


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
@pytest.mark.parametrize("view", View)
def test_a_variant_has_its_own_fields_in_the_order_of_the_contract(resource: Resource, view: View) -> None:
    variant = Variant(resource, view, frozenset(resource.flags[view]))
    assert list(answered(variant)) == [field.name for field in resource.view(view)]
    assert answered(variant) == filled(resource.view(view))


@pytest.mark.parametrize(
    ("resource", "view"),
    [(LISTING, View.SHOW), (SOLD_LISTING, View.SHOW), (AGENT, View.INDEX), (AGENT, View.SHOW)],
    ids=lambda part: getattr(part, "alias", part),
)
def test_a_member_that_is_not_stored_is_answered_empty(resource: Resource, view: View) -> None:
    expected = {field.name: field.empty_value for field in resource.view(view) if not field.is_absent(view)}
    assert answered(Variant(resource, view), {}) == expected


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("sent", [[], *([flag] for flag in FLAGS), FLAGS], ids=str)
def test_agent_blocks_come_with_their_flag_alone(view: View, sent: list[str]) -> None:
    record = answered(Variant(AGENT, view, frozenset(sent)))
    for field in AGENT.view(view):
        asked = field.flag is None or view not in field.flag.views or field.flag.parameter in sent
        if asked:
            assert record[field.name] == _value(field)
        else:
            assert field.name not in record


def test_an_agent_shown_alone_always_has_bio_website_and_programs() -> None:
    record = answered(Variant(AGENT, View.SHOW))
    assert (record["bio"], record["website_base_url"]) == ("the bio", "the website_base_url")
    assert record["company_programs"] == ["a company_programs"]
    assert [field.name for field in AGENT.fields if field.views == INDEX_ONLY] == []


def keys(value: Any) -> set[str]:
    """Return every key at any depth."""
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


@pytest.mark.parametrize("view", View)
def test_underscored_records_have_underscored_keys_at_every_depth(view: View) -> None:
    underscored = keys(answered(Variant(LISTING, view, underscored=True)))
    assert underscored == {key.lower() for key in underscored}
    assert {"platform_listing_id", "full_url", "property_feature_values", "virtual_open_house_yn"} <= underscored
    assert {"attribute_1", "list_office_aor_area"} <= underscored


@pytest.mark.parametrize("view", View)
def test_underscoring_changes_keys_and_nothing_else(view: View) -> None:
    plain, underscored = answered(Variant(LISTING, view)), answered(Variant(LISTING, view, underscored=True))
    assert list(underscored) == [field.underscored for field in LISTING.view(view)]
    for field in LISTING.view(view):
        if not field.members:
            assert underscored[field.underscored] == plain[field.name]
    assert underscored["listing_images"][1]["gallery_url"] == plain["ListingImages"][1]["GalleryURL"]
    assert underscored["property_features"][0]["property_feature_values"] == ["a PropertyFeatureValues"]


def test_absent_objects_and_empty_lists_stay_so_when_underscored() -> None:
    record = filled(LISTING.stored) | {"SharedPartnerData": None, "OpenHouse": [], "ListingImages": [{"Title": "x"}]}
    underscored = answered(Variant(LISTING, View.INDEX, underscored=True), record)
    assert (underscored["shared_partner_data"], underscored["open_house"]) == (None, [])
    assert underscored["listing_images"][0]["title"] == "x"
    assert underscored["listing_images"][0]["width"] is None


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5))
def test_each_record_is_projected_in_its_place(remarks: list[str]) -> None:
    records = [orjson.dumps({"PlatformListingId": str(at), "PublicRemarks": text}) for at, text in enumerate(remarks)]
    shown = [orjson.loads(record) for record in Variant(LISTING, View.SHOW).encode(records)]
    assert [(record["PlatformListingId"], record["PublicRemarks"]) for record in shown] == [
        (str(at), text) for at, text in enumerate(remarks)
    ]


SAMPLES = {
    FieldKind.DATE: "2026-01-01",
    FieldKind.DATE_TIME: "2026-01-01T00:00:00Z",
    FieldKind.INTEGER: 2**53,
    FieldKind.UNIX: 2**62,
    FieldKind.NUMBER: 0.025,
    FieldKind.BOOLEAN: True,
    FieldKind.UNTYPED: {"Fee": [350.5]},
    FieldKind.UNTYPED_LIST: [350.5, {}],
}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
@pytest.mark.parametrize("view", View)
def test_what_the_indexer_writes_is_never_read_twice(resource: Resource, view: View) -> None:
    held = filled(resource.stored, SAMPLES) | {resource.identifier: "x1"}
    projection = _projection(Variant(resource, view, frozenset(resource.flags[view]), underscored=True))
    assert projection is not None
    projection.strict.decode(msgspec.json.encode(msgspec.convert(held, record_type(resource))))


def test_the_envelope_is_spelt_as_its_records() -> None:
    assert Variant(LISTING, View.INDEX).spell("FinalPage", "final_page") == "FinalPage"
    assert Variant(LISTING, View.INDEX, underscored=True).spell("FinalPage", "final_page") == "final_page"
