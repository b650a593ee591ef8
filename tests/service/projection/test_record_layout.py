"""Layouts against a plain implementation that parses and rebuilds, on arbitrary records, digit for digit."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings import AGENT, LISTING, RESOURCES, Resource
from mappings.fields import Field, FieldKind, View, underscore
from service.projection import Variant, _projection

HOSTILE = ['","FullURL":"', '{"Title":null}', '"ListingImages":[', "FullURL", "full_url", "\\", '\\"', '"', "{", "}]"]
TEXTS = st.sampled_from([*HOSTILE, "\x00\x1f", "\t", "é😀\u2028"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
KEYS = st.sampled_from(["Title", "ListPrice", "fooBar", "foo_bar", "HTTPServer", *HOSTILE]) | TEXTS
# Numbers as they are written, which is how they have to stay.
WHOLE = st.integers(-(2**70), 2**70)
NUMBERS = st.sampled_from(["1.0", "1e3", "-1.50E-7", "-0.0", "1e400", "9007199254740993.0"]).map(
    lambda text: msgspec.Raw(text.encode())
)
SCALARS = st.none() | st.booleans() | WHOLE | NUMBERS | TEXTS
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
)
TYPED: dict[FieldKind, st.SearchStrategy[Any]] = {
    FieldKind.INTEGER: WHOLE | st.none(),
    FieldKind.UNIX: WHOLE | st.none(),
    FieldKind.NUMBER: NUMBERS | WHOLE | st.none(),
    FieldKind.BOOLEAN: st.booleans() | st.none(),
    FieldKind.UNTYPED: ANYTHING,
    FieldKind.STRINGS: st.lists(TEXTS, max_size=3) | st.none(),
    FieldKind.UNTYPED_LIST: st.lists(ANYTHING, max_size=3) | st.none(),
}


def values(field: Field) -> st.SearchStrategy[Any]:
    """Return what a member may hold."""
    if not field.members:
        return TYPED.get(field.kind, TEXTS | st.none())
    one = members(field.members)
    return (st.lists(one, max_size=3) if field.kind is FieldKind.OBJECTS else one) | st.none()


def members(fields: tuple[Field, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects that hold some of the members, in any order."""
    return st.lists(st.sampled_from(fields), unique=True, max_size=8).flatmap(
        lambda some: st.fixed_dictionaries({field.name: values(field) for field in some})
    )


def with_untyped(fields: tuple[Field, ...], value: object) -> Iterator[dict[str, Any]]:
    """Yield for each member without a declared shape, in objects as well, an object in which it is the value."""
    for field in fields:
        if field.kind in {FieldKind.UNTYPED, FieldKind.UNTYPED_LIST}:
            yield {field.name: value}
        for held in with_untyped(field.members, value):
            yield {field.name: [{}, held, held] if field.kind is FieldKind.OBJECTS else held}


def completed(fields: tuple[Field, ...], held: dict[str, Any]) -> dict[str, Any]:
    """Return an object as the indexer stores it: every member, in the contract's order, and in objects as well."""
    return {field.name: _completed(field, held.get(field.name)) for field in fields}


def _completed(field: Field, value: Any) -> Any:
    if value is None or not field.members:
        return field.empty_value if value is None else value
    inner = [completed(field.members, one) for one in (value if isinstance(value, list) else [value])]
    return inner if field.kind is FieldKind.OBJECTS else inner[0]


def parsed(text: bytes | memoryview) -> Any:
    """Parse, with fractions as they are written."""
    return json.loads(bytes(text), parse_float=lambda digits: ("fraction", digits))


def plainly(variant: Variant, record: dict[str, Any]) -> dict[str, Any]:
    """Convert a parsed record to a variant: the reference implementation."""
    shown: dict[Field, Any] = {}
    for field in variant.resource.view(variant.view):
        flag = field.flag
        wanted = flag is None or variant.view not in flag.views or flag.parameter in variant.flags
        if wanted:
            shown[field] = record.get(field.name, field.empty_value)
    if variant.underscored:
        return {field.underscored: _respelt(field, value) for field, value in shown.items()}
    return {field.name: value for field, value in shown.items()}


def _respelt(field: Field, value: Any) -> Any:
    if field.kind in {FieldKind.UNTYPED, FieldKind.UNTYPED_LIST}:
        return _everywhere(value)
    if not field.members or value is None:
        return value
    if isinstance(value, list):
        return [_respelt(field, one) for one in value]
    return {part.underscored: _respelt(part, value.get(part.name, part.empty_value)) for part in field.members}


def _everywhere(value: Any) -> Any:
    if isinstance(value, dict):
        return {underscore(key): _everywhere(inner) for key, inner in value.items()}
    return [_everywhere(one) for one in value] if isinstance(value, list) else value


def ordered(value: Any) -> Any:
    """Return a parsed value in which the order of members counts."""
    if isinstance(value, dict):
        return [(key, ordered(inner)) for key, inner in value.items()]
    return [ordered(one) for one in value] if isinstance(value, list) else value


def agree(variant: Variant, stored: bytes) -> None:
    """Check a stored record against the plain implementation, between two other records."""
    answers = variant.encode([b"{}", memoryview(stored), b"{}"])
    expected = [plainly(variant, {}), plainly(variant, parsed(stored)), plainly(variant, {})]
    assert ordered([parsed(answer) for answer in answers]) == ordered(expected)


@st.composite
def variants(draw: st.DrawFn, resources: tuple[Resource, ...] = RESOURCES) -> Variant:
    """Return any variant that differs from the stored form."""
    resource, view = draw(st.sampled_from(resources)), draw(st.sampled_from(View))
    flags = draw(st.sets(st.sampled_from(sorted(resource.flags[view])))) if resource.flags[view] else set()
    variant = Variant(resource, view, frozenset(flags), draw(st.booleans()))
    return replace(variant, underscored=True) if _projection(variant) is None else variant


@given(st.data(), variants())
def test_stored_records_are_encoded_as_by_the_plain_path(data: st.DataObject, variant: Variant) -> None:
    stored = completed(variant.resource.stored, data.draw(members(variant.resource.stored)))
    agree(variant, msgspec.json.encode(stored))


@given(st.data(), variants((LISTING,)), st.sampled_from([0, 2]))
def test_so_are_records_with_gaps_strangers_blanks_and_another_order(
    data: st.DataObject, variant: Variant, indent: int
) -> None:
    strangers = {"Unheard": {"FullURL": 1}, "full_url": data.draw(ANYTHING), "Title": data.draw(ANYTHING)}
    held = data.draw(members(variant.resource.stored)) | strangers
    inner = {"Strange": strangers, "Width": 1}
    held = data.draw(st.permutations([*held.items()]).map(dict)) | {
        "ListingImages": [inner],
        "SharedPartnerData": inner,
    }
    agree(variant, msgspec.json.format(msgspec.json.encode(held), indent=indent))


@given(st.data(), variants((LISTING,)))
def test_so_are_values_of_a_type_that_is_not_declared(data: st.DataObject, variant: Variant) -> None:
    plain = tuple(field for field in variant.resource.stored if field.kind not in TYPED and not field.members)
    wrong = data.draw(
        st.dictionaries(st.sampled_from([field.name for field in plain]), ANYTHING, min_size=1, max_size=4)
    )
    image = {"Width": data.draw(SCALARS), "Title": data.draw(SCALARS), "Caption": "x"}
    agree(variant, msgspec.json.encode(wrong | {"ListPrice": data.draw(ANYTHING), "ListingImages": [image]}))


@pytest.mark.parametrize("digits", [b"1.0", b"1e3", b"-1.50E-7", b"9007199254740993.0", b"%d" % 2**80])
@pytest.mark.parametrize("place", [b'{"ListPrice":%b}', b'{"ListingImages":[{"Width":%b}]}', b'{"Address2":%b}'])
def test_numbers_stay_as_they_are_written(digits: bytes, place: bytes) -> None:
    agree(Variant(LISTING, View.INDEX, underscored=True), place % digits)


@pytest.mark.parametrize("resource", [LISTING, AGENT], ids=lambda resource: resource.alias)
def test_keys_of_values_without_a_declared_shape_are_respelt_at_every_depth(resource: Resource) -> None:
    value = msgspec.Raw(b'[{"FooBar":[1e3,{"HTTPServer":"{\\"NotAKey\\":1}"}]},"{",[[{"a\\"B":1.0}]],{}]')
    for held in with_untyped(resource.stored, value):
        agree(Variant(resource, View.INDEX, underscored=True), msgspec.json.encode(held))


@pytest.mark.parametrize("images", ['"x"', "[1]", "[null]", '{"Title":"x"}'])
def test_where_no_objects_are_keys_cannot_be_respelt(images: str) -> None:
    with pytest.raises(msgspec.DecodeError, match="ListingImages"):
        Variant(LISTING, View.INDEX, underscored=True).encode([b'{"ListingImages":%b}' % images.encode()])


def test_underscored_records_take_no_more_memory_than_they_are_long() -> None:
    records = [msgspec.json.encode({"PublicRemarks": "x" * size}) for size in (9_000, 1, 5_000)]
    answers = Variant(LISTING, View.INDEX, underscored=True).encode(records)
    assert [type(answer) for answer in answers] == [bytes] * 3
    assert [len(parsed(answer)["public_remarks"]) for answer in answers] == [9_000, 1, 5_000]
