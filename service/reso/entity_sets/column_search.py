"""How a column is searched: the matcher and the sort field that follow from the declared search fields."""

from collections.abc import Callable
from typing import NamedTuple

from mappings.fields import Field, FieldKind
from mappings.resource import Resource
from mappings.search_fields import Conversion, FieldOrigin, SearchField
from service.reso.entity_sets.edm_types import EdmType
from service.reso.entity_sets.sort_fields import SortField, sort_field
from service.reso.filter.collection_matcher import CollectionMatcher
from service.reso.filter.matchers import BooleanMatcher, KeywordMatcher, Matcher
from service.reso.filter.numeric_matchers import (
    DateMatcher,
    DecimalMatcher,
    OptionalIntegerMatcher,
    OptionalTimestampMatcher,
)

# By the type of a search field that holds a member verbatim.
_BY_MAPPING: dict[str, Callable[[str], Matcher]] = {
    "keyword": KeywordMatcher,
    "long": OptionalIntegerMatcher,
    "double": DecimalMatcher,
    "boolean": BooleanMatcher,
}
_BY_CONVERSION: dict[tuple[Conversion, EdmType], Callable[[str], Matcher]] = {
    (Conversion.DAY, EdmType.DATE): DateMatcher,
    (Conversion.DAY, EdmType.DATE_TIME): OptionalTimestampMatcher,
    (Conversion.TIMESTAMP, EdmType.DATE_TIME): OptionalTimestampMatcher,
    (Conversion.EXACT, EdmType.DECIMAL): DecimalMatcher,
}


class ColumnSearch(NamedTuple):
    """The matcher of a column's comparisons and its sort field; None if the index cannot answer them."""

    matcher: Matcher | None = None
    sort: SortField | None = None
    fields: tuple[str, ...] = ()  # the search fields that both use, besides those of every resource


def member_search(resource: Resource, member: Field, edm: EdmType) -> ColumnSearch:
    """Return how a member is searched: by a search field that is read from this member alone."""
    for indexed in resource.search_fields:
        if indexed.origin is FieldOrigin.RECORD and indexed.sources == (member.name,):
            if matcher := _comparison(indexed, member, edm):
                return ColumnSearch(matcher, sort_field(indexed), (indexed.name,))
            return ColumnSearch()
    return ColumnSearch()


def _comparison(indexed: SearchField, member: Field, edm: EdmType) -> Matcher | None:
    """Return the matcher of a search field for literals of the property's type; None for a presence flag."""
    if indexed.conversion is not Conversion.VERBATIM:
        make = _BY_CONVERSION.get((indexed.conversion, edm))
    elif member.kind is FieldKind.UNIX:
        make = None  # OData compares it as a timestamp: declare it with `timestamp`
    else:
        make = _BY_MAPPING.get(str(indexed.mapping["type"]))
    return make(indexed.name) if make else None


def feature_search(resource: Resource, feature: str) -> ColumnSearch:
    """Return how a property feature is searched."""
    for indexed in resource.search_fields:
        if indexed.conversion is Conversion.FEATURE and indexed.feature == feature:
            return ColumnSearch(CollectionMatcher(indexed.name), None, (indexed.name,))
    return ColumnSearch()
