"""Normalization to the values of the contract: status, market and property type of listings; objects of companies."""

from collections.abc import Callable
from typing import Any

from indexer.errors import InvalidRecordError
from mappings import Resource
from mappings.legends import ON_MARKET_STATUSES, PROPERTY_TYPES, STATUSES

_NOT_FOUND = -1


def _normalized_name(name: str) -> str:
    """Ignore case, spaces, underscores and hyphens."""
    return "".join(character for character in name.casefold() if character not in " _-")


_STATUSES = {_normalized_name(status): status for status in STATUSES}
_ON_MARKET = {status: status in ON_MARKET_STATUSES for status in STATUSES}
_TYPE_NUMBERS = {name.casefold(): number for number, name in PROPERTY_TYPES.items()}


def record_rules(resource: Resource) -> Callable[[Any], int]:
    """Return the function that applies the rules to an envelope and returns its number of corrections.

    It raises InvalidRecordError for values that no rule covers. Resources other than listings and companies have none.
    """
    names = {field.name for field in resource.stored}
    if "public_partner_attrs" in names:
        return _company
    if "Status" not in names:
        return lambda _: 0
    return _listing if "StatusChangeDate" in names else _sold_listing


def _company(envelope: Any) -> int:
    """Complete the object: the contract allows null for `client_company_id` alone (decision 2)."""
    if envelope.record.public_partner_attrs is None:
        envelope.record.public_partner_attrs = {"is_nrt": None}
    return 0


def _listing(envelope: Any) -> int:
    """Keep StatusChangeDate only while the listing is on the market (decisions, `StatusChangeDate`).

    A listing without a status would be in no market, so that most requests would not find it.
    """
    if envelope.record.Status is None:
        raise InvalidRecordError("record.Status", f"is missing: use one of {', '.join(STATUSES)}")
    corrected = _sold_listing(envelope)
    if envelope.record.Status not in ON_MARKET_STATUSES:
        envelope.record.StatusChangeDate = None
    return corrected


def _sold_listing(envelope: Any) -> int:
    corrected = _status(envelope.record)
    _property_type(envelope)
    return corrected


def _status(record: Any) -> int:
    """Normalize Status and derive OnMarket from it; a contradicting OnMarket counts as a correction.

    A sold listing may have no status; it is not on the market.
    """
    if record.Status is None:
        record.OnMarket = bool(record.OnMarket)
        return 0
    if record.Status not in _ON_MARKET:
        record.Status = _canonical_status(record.Status)
    stated, record.OnMarket = record.OnMarket, _ON_MARKET[record.Status]
    return int(stated is not None and stated is not record.OnMarket)


def _canonical_status(status: str) -> str:
    if (canonical := _STATUSES.get(_normalized_name(status))) is None:
        raise InvalidRecordError("record.Status", f"is {status!r}: use one of {', '.join(STATUSES)}")
    return canonical


def _property_type(envelope: Any) -> None:
    """Derive the name and the number of the property type from each other; reject a contradiction."""
    record, number = envelope.record, envelope.property_type_id
    if number in PROPERTY_TYPES and record.PropertyType == PROPERTY_TYPES[number]:
        return
    if number is not None and number not in PROPERTY_TYPES:
        raise InvalidRecordError("property_type_id", f"is {number}, which is not a known property type")
    named = _type_number(record.PropertyType)
    if number is not None and named is not None and number != named:
        raise InvalidRecordError(
            "property_type_id", f"is {number}, but PropertyType {record.PropertyType!r} is {named}"
        )
    known = named if number is None else number
    if known is not None:
        record.PropertyType = PROPERTY_TYPES[known]
    envelope.property_type_id = _NOT_FOUND if known is None else known


def _type_number(name: str | None) -> int | None:
    if name is None:
        return None
    number = _TYPE_NUMBERS.get(name.strip().casefold())
    if number is None:
        raise InvalidRecordError("record.PropertyType", f"is {name!r}: use one of {', '.join(PROPERTY_TYPES.values())}")
    return number
