"""How a listing's status, market and property type are brought to the contract's spelling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from indexer.errors import ItemError
from mappings.legends import ON_MARKET_STATUSES, PROPERTY_TYPES, STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable

    from mappings import Resource


_NOT_FOUND = -1


def _bare(name: str) -> str:
    """Leave out what spellings differ in: case, spaces, underscores and hyphens."""
    return "".join(character for character in name.casefold() if character not in " _-")


_STATUSES = {_bare(status): status for status in STATUSES}
_ON_MARKET = {status: status in ON_MARKET_STATUSES for status in STATUSES}
_TYPE_NUMBERS = {name.casefold(): number for number, name in PROPERTY_TYPES.items()}


def listing_rules(resource: Resource) -> Callable[[Any], int]:
    """Return the function that applies the rules to an envelope of the resource and counts what it corrected.

    It raises ItemError for what no rule can mend. To a resource that is no listing no rule applies.
    """
    names = {field.name for field in resource.stored}
    if "Status" not in names:
        return _nothing
    return _listing if "StatusChangeDate" in names else _sold_listing


def _nothing(_: Any) -> int:
    return 0


def _listing(envelope: Any) -> int:
    """Keep StatusChangeDate only while the listing is on the market (decisions, `StatusChangeDate`)."""
    corrected = _sold_listing(envelope)
    if envelope.record.Status not in ON_MARKET_STATUSES:
        envelope.record.StatusChangeDate = None
    return corrected


def _sold_listing(envelope: Any) -> int:
    corrected = _status(envelope.record)
    _property_type(envelope)
    return corrected


def _status(record: Any) -> int:
    """Spell Status as declared and let OnMarket follow it; a contradicting OnMarket is counted."""
    if record.Status is None:
        return 0
    if record.Status not in _ON_MARKET:
        record.Status = _spelt(record.Status)
    stated, record.OnMarket = record.OnMarket, _ON_MARKET[record.Status]
    return int(stated is not None and stated is not record.OnMarket)


def _spelt(status: str) -> str:
    if (spelt := _STATUSES.get(_bare(status))) is None:
        raise ItemError("record.Status", f"is {status!r}: give one of {', '.join(STATUSES)}")
    return spelt


def _property_type(envelope: Any) -> None:
    """Complete name and number of the property type from each other; two that differ are a fault."""
    record, number = envelope.record, envelope.property_type_id
    if number in PROPERTY_TYPES and record.PropertyType == PROPERTY_TYPES[number]:
        return
    if number is not None and number not in PROPERTY_TYPES:
        raise ItemError("property_type_id", f"is {number}, which the legend of property types does not have")
    named = _type_number(record.PropertyType)
    if number is not None and named is not None and number != named:
        raise ItemError("property_type_id", f"is {number}, but PropertyType {record.PropertyType!r} is {named}")
    known = named if number is None else number
    if known is not None:
        record.PropertyType = PROPERTY_TYPES[known]
    envelope.property_type_id = _NOT_FOUND if known is None else known


def _type_number(name: str | None) -> int | None:
    if name is None:
        return None
    number = _TYPE_NUMBERS.get(name.strip().casefold())
    if number is None:
        raise ItemError("record.PropertyType", f"is {name!r}: give one of {', '.join(PROPERTY_TYPES.values())}")
    return number
