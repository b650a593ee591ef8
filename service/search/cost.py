"""What the clauses of a filter cost Elasticsearch, estimated before it is asked.

Times are processor milliseconds with 1,000,000 listings, 500,000 sold ones and few other records, where all records
match and all values differ (decision 59). A clause costs in proportion to the records of its resource, whatever the
filter selects, and a pattern in proportion to its length.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from mappings import LISTING, SOLD_LISTING
from mappings.resource import Resource
from mappings.search_fields import SYSTEM_FIELDS
from service.search.query import Clause

_SHARE_OF_LISTINGS = {LISTING: 1.0, SOLD_LISTING: 0.5}
_SHARE_OF_OTHERS = 0.1

_CLAUSE, _VALUE = 0.3, 0.02
# Of a field with an index, and of one that is compared record by record.
_RANGE, _SCANNED_RANGE = 3.0, 11.0
# A pattern with a known beginning, and one that is compared with every text.
_BEGINNING, _SCANNED_BEGINNING = 2.0, 9.0
_PATTERN, _SCANNED_PATTERN = 20.0, 40.0
_PATTERN_CHARACTER = 0.075


def search_milliseconds(resource: Resource, clauses: Iterable[Clause]) -> float:
    """Return the processor time of a search of a resource by some clauses."""
    scanned, share = _scanned_fields(resource), _SHARE_OF_LISTINGS.get(resource, _SHARE_OF_OTHERS)
    return sum(_milliseconds(clause, scanned, share) for clause in clauses)


@cache
def _scanned_fields(resource: Resource) -> frozenset[str]:
    """Return the names of the fields without an index, which Elasticsearch compares record by record."""
    declared = (*SYSTEM_FIELDS, *resource.search_fields)
    return frozenset(field.name for field in declared if field.mapping.get("index") is False)


def _milliseconds(clause: Mapping[str, Any], scanned: frozenset[str], share: float) -> float:
    [(kind, content)] = clause.items()
    if kind == "bool":
        return sum(_milliseconds(inner, scanned, share) for part in content.values() for inner in part)
    if kind == "terms":
        [values] = content.values()
        return share * (_CLAUSE + _VALUE * len(values))
    if kind == "range":
        [name] = content
        return share * (_SCANNED_RANGE if name in scanned else _RANGE)
    if kind == "regexp":
        [(name, pattern)] = content.items()
        text, is_scanned = pattern["value"], name in scanned
        if text.startswith(".*"):
            compared = _SCANNED_PATTERN if is_scanned else _PATTERN
        else:
            # Each of the alternatives begins somewhere else.
            compared = (_SCANNED_BEGINNING if is_scanned else _BEGINNING) + _VALUE * text.count("|")
        return share * compared + _PATTERN_CHARACTER * len(text)
    return _CLAUSE * share
