"""The envelope round a source record, decoded and checked by one compiled decoder per resource."""

from __future__ import annotations

import datetime as dt
import re
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from indexer.errors import ItemError
from mappings.record_type import IDENTIFIER_PATTERN, record_type, settled_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from mappings import Resource

_Moment = Annotated[dt.datetime, msgspec.Meta(tz=True)]

# Members that only some resources' envelopes have (`Resource.envelope`).
_MEMBERS: dict[str, Any] = {
    "shared_partner_data_updated_at": _Moment | None,
    "property_type_id": int | None,
    "source_agent_id": str | None,
    "deactivated_at": _Moment | None,
    "parent_company_id": str | None,
}

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
# A version is the microsecond times 1,024 and must stay below 2**63.
_LAST_MICROSECOND = 2**53 - 1

_PLACE = re.compile(r"(?P<text>.*?)(?: - at `\$\.?(?P<field>.*)`)?", re.DOTALL)
# What the settled decoder raises: of what is refused by it `Decoder` knows whether it is a fault.
NOT_SETTLED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")


@cache
def envelope_type(resource: Resource, record: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return the type of the resource's envelope round a record. A member that is null counts as absent."""
    members: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("updated_at", _Moment),
        ("record", record),
        ("platform_company_id", str | None, None),
        ("deleted", bool | None, None),
        ("resource", Literal[resource.alias] | None, None),
        *((name, _MEMBERS[name], None) for name in sorted(resource.envelope)),
    ]
    return msgspec.defstruct(f"{resource.name}Envelope", members, kw_only=True, forbid_unknown_fields=True, gc=False)


def settled_decoder(resource: Resource) -> Callable[[bytes], Any]:
    """Return the decoder of envelopes whose record is settled; it raises NOT_SETTLED without a reason for people."""
    return msgspec.json.Decoder(envelope_type(resource, settled_type(resource))).decode


class Decoder:
    """Reads the envelopes of one resource."""

    def __init__(self, resource: Resource) -> None:
        """Compile the decoder."""
        self._decode = msgspec.json.Decoder(envelope_type(resource, record_type(resource))).decode

    def __call__(self, data: bytes) -> Any:
        """Return the envelope; raise ItemError with the field and the reason where it is none."""
        try:
            return self._decode(data)
        except msgspec.ValidationError as error:
            raise _explained(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise ItemError("", f"is no JSON object in UTF-8: {error}") from None
        except RecursionError:
            raise ItemError("", "is nested too deeply") from None


def _explained(message: str) -> ItemError:
    match = _PLACE.fullmatch(message)
    text, field = (match["text"], match["field"] or "") if match else (message, "")
    if unknown := _UNKNOWN.fullmatch(text):
        return ItemError(_below(field, unknown["name"]), "is not a known field")
    if missing := _MISSING.fullmatch(text):
        return ItemError(_below(field, missing["name"]), "is missing")
    if "matching regex" in text:
        return ItemError(field, _pattern(text))
    return ItemError(field, text[0].lower() + text[1:])


def _below(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _pattern(text: str) -> str:
    if repr(IDENTIFIER_PATTERN) in text:
        return "must have 1 to 128 characters, no space, slash or control character among them"
    return "must be an ISO 8601 date-time with offset, such as 2026-11-20T10:00:00Z"


def microseconds(envelope: Any) -> int:
    """Return `updated_at` in microseconds since 1970; raise ItemError outside 1970 to 2255."""
    stamp = (envelope.updated_at - _EPOCH) // _MICROSECOND
    if not 0 <= stamp <= _LAST_MICROSECOND:
        raise ItemError("updated_at", "must lie between the years 1970 and 2255")
    return int(stamp)


def milliseconds(moment: dt.datetime) -> int:
    """Return a moment as whole milliseconds since 1970."""
    return (moment - _EPOCH) // (1000 * _MICROSECOND)
