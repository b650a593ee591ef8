"""What is kept of a number that the contract has as a whole one."""

from typing import Any

import orjson
import pytest

from mappings import LISTING, OFFICE, RESOURCES, SOLD_LISTING, Resource
from mappings.fields import FieldKind
from mappings.stored_document import exact_values
from tests.indexer.parsed_lines import parse_line, search_fields
from tests.records import envelope


def exact(changes: dict[str, Any], resource: Resource = LISTING) -> object:
    """Return the exact values of a record with changes, None if its document has none."""
    return search_fields(parse_line(resource, envelope(resource, changes))).get("exact")


@pytest.mark.parametrize("number", [0.23, 2.5, 0.5, 3.4999, -0.4, -1.5, 1e-7, 1e-300, 2251799813685249.5])
def test_a_number_with_a_fraction_is_kept_as_the_source_has_it(number: float) -> None:
    document = parse_line(LISTING, envelope(LISTING, {"LotSizeAcres": number}))
    assert orjson.loads(exact_values(document.head)) == search_fields(document)["exact"] == {"LotSizeAcres": number}


@pytest.mark.parametrize("number", [7, 0, -3, 2**53, 2.0, -0.0, 1e3, 9007199254740991.0, None])
def test_a_whole_number_is_not_kept_twice(number: float | None) -> None:
    document = parse_line(LISTING, envelope(LISTING, {"LotSizeAcres": number}))
    assert "exact" not in search_fields(document)
    assert exact_values(document.head) == b""


def test_all_numbers_of_the_record_are_kept_but_none_of_objects_in_it() -> None:
    changes = {"ListPrice": 350_000.5, "BathroomsTotal": 2.5, "ListingImages": [{"Width": 1.5}], "YearBuilt": 1990}
    assert exact(changes) == exact(changes, SOLD_LISTING) == {"ListPrice": 350_000.5, "BathroomsTotal": 2.5}


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_only_resources_that_show_exact_values_keep_them(resource: Resource) -> None:
    rounded = {field.name: 4.4 for field in resource.stored if field.kind is FieldKind.INTEGER}
    assert exact(rounded, resource) == (rounded if resource in {LISTING, SOLD_LISTING} else None)
    shown = {field.name for field in resource.stored if field.is_shown_exact}
    assert {field.kind for field in resource.stored if field.name in shown} <= {FieldKind.INTEGER}


def test_baths_and_acres_are_shown_exactly() -> None:
    named = {field.name for field in LISTING.stored if field.kind is FieldKind.INTEGER}
    baths = {name for name in named if name.startswith("Bathrooms")}
    assert LISTING.exact_names == SOLD_LISTING.exact_names == baths | {"LotSizeAcres"}
    assert OFFICE.exact_names == frozenset()


def test_a_text_that_looks_like_exact_values_is_none() -> None:
    sent = envelope(LISTING, {"PlatformListingId": "x", "ListingID": ',"exact":{"LotSizeAcres":7}'})
    assert exact_values(parse_line(LISTING, sent).head) == b""


def test_a_fraction_is_no_content_but_makes_another_version_of_the_same_moment() -> None:
    small, large = (parse_line(LISTING, envelope(LISTING, {"LotSizeAcres": acres})) for acres in (0.23, 0.24))
    whole = parse_line(LISTING, envelope(LISTING, {"LotSizeAcres": 0}))
    assert small.content == large.content == whole.content
    assert small.record == large.record == whole.record
    assert len({small.version, large.version, whole.version}) == 3
    digests = [[search_fields(one)[name] for name in ("proof_high", "proof_low")] for one in (small, large, whole)]
    assert digests == digests[:1] * 3
