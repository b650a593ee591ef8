"""The envelope of a source record: decoded and checked by one compiled decoder per resource.

Its times must have passed: later ones would freeze a record, or repeat it in every poll. Its identifier is found
whether or not the rest is valid.
"""

import datetime as dt
import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import cache
from itertools import chain
from typing import Annotated, Any, Literal, get_args

import msgspec

from indexer.clock import LAST_MICROSECOND, epoch_microseconds, latest_microseconds
from indexer.errors import InvalidRecordError
from indexer.source.lines import recovered_identifiers
from mappings import Resource
from mappings.fields import RULE, STORED_PATTERN
from mappings.history import DICTIONARY_FIELDS
from mappings.listing import HISTORY, TIME_ZONE
from mappings.record_schema import object_type, record_type, strict_record_type

_DateTime = Annotated[dt.datetime, msgspec.Meta(tz=True)]

# Members of some resources' envelopes only (`Resource.envelope_members`).
_MEMBERS: dict[str, Any] = {
    "shared_partner_data_updated_at": _DateTime | None,
    "property_type_id": int | None,
    TIME_ZONE: str | None,
    HISTORY: object_type("History", DICTIONARY_FIELDS) | None,
    "source_agent_id": str | None,
    "deactivated_at": _DateTime | None,
    "parent_company_id": str | None,
}

_MAX_NAME_LENGTH = 64  # of an unknown field; comparing a longer one takes too long

_ERROR_PATH = re.compile(r"(?P<text>.*?)(?: - at `\$\.?(?P<field>.*)`)?", re.DOTALL)
# What the strict decoder raises. `EnvelopeDecoder` then decides whether the line is invalid.
STRICT_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_LOW_SURROGATE = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HIGH_SURROGATE = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LONE_SURROGATE = re.compile(
    rb"%b(?!%b)|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})%b" % (_HIGH_SURROGATE, _LOW_SURROGATE, _LOW_SURROGATE)
)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")


@cache
def _envelope_type(resource: Resource, record: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """Return the type of the resource's envelope with a record type. A null member counts as absent."""
    members: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("updated_at", _DateTime),
        ("record", record),
        ("platform_company_id", str | None, None),
        ("deleted", bool | None, None),
        ("resource", Literal[resource.alias] | None, None),
        *((name, _MEMBERS[name], None) for name in sorted(resource.envelope_members)),
    ]
    return msgspec.defstruct(f"{resource.name}Envelope", members, kw_only=True, forbid_unknown_fields=True, gc=False)


def strict_decoder(resource: Resource) -> Callable[[bytes], Any]:
    """Return a fast decoder of envelopes that need little normalizing; it raises STRICT_DECODE_ERRORS for others."""
    return msgspec.json.Decoder(_envelope_type(resource, strict_record_type(resource))).decode


class EnvelopeDecoder:
    """Decodes any valid envelope of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._names = _member_names(_envelope_type(resource, record_type(resource)))
        self._decode = msgspec.json.Decoder(_envelope_type(resource, record_type(resource))).decode

    def __call__(self, data: bytes) -> Any:
        """Return the envelope; raise InvalidRecordError with the field and the reason."""
        try:
            return self._decode(data)
        except msgspec.ValidationError as error:
            raise _invalid_record(str(error), self._names) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidRecordError("", f"is not a JSON object in UTF-8: {_cause(data, error)}") from None
        except RecursionError:
            raise InvalidRecordError("", "is nested too deeply") from None


def _cause(data: bytes, error: Exception) -> str:
    """Return why a line is not JSON; half a surrogate pair is reported as something else by the decoder."""
    return "an escape such as \\ud83d is half a character" if _LONE_SURROGATE.search(data) else str(error)


def _invalid_record(message: str, names: Collection[str]) -> InvalidRecordError:
    match = _ERROR_PATH.fullmatch(message)
    text, field = (match["text"], match["field"] or "") if match else (message, "")
    if unknown := _UNKNOWN.fullmatch(text):
        return InvalidRecordError(
            _join(field, unknown["name"]), f"is not a known field{_suggestion(unknown['name'], names)}"
        )
    if missing := _MISSING.fullmatch(text):
        return InvalidRecordError(_join(field, missing["name"]), "is missing")
    if "matching regex" in text:
        return InvalidRecordError(field, _pattern_reason(text))
    return InvalidRecordError(field, text[0].lower() + text[1:])


def _member_names(struct: type[msgspec.Struct]) -> frozenset[str]:
    found = set(struct.__struct_fields__)
    for member in msgspec.structs.fields(struct):
        for part in (member.type, *get_args(member.type), *chain.from_iterable(map(get_args, get_args(member.type)))):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                found |= _member_names(part)
    return frozenset(found)


def _suggestion(name: str, names: Collection[str]) -> str:
    """Return the name that was probably meant, as the end of a sentence."""
    folded = {known.casefold(): known for known in sorted(names)}
    near = get_close_matches(name.casefold(), folded, n=1) if len(name) <= _MAX_NAME_LENGTH else []
    return f". Did you mean {folded[near[0]]}?" if near else ""


def _join(field: str, name: str) -> str:
    return f"{field}.{name}" if field else name


def _pattern_reason(text: str) -> str:
    if repr(STORED_PATTERN) in text:
        return RULE
    return "must be an ISO 8601 date-time with offset, such as 2026-11-20T10:00:00Z"


def updated_at_microseconds(envelope: Any) -> int:
    """Return `updated_at` in microseconds since 1970; raise InvalidRecordError outside 1970 to 2255."""
    microseconds = epoch_microseconds(envelope.updated_at)
    if not 0 <= microseconds <= LAST_MICROSECOND:
        raise InvalidRecordError("updated_at", "must be between the years 1970 and 2255")
    return microseconds


_TIMES = ("deactivated_at", "shared_partner_data_updated_at")


class CredibleTimes:
    """Checks the times of one resource's envelopes against this host's clock."""

    def __init__(self, resource: Resource, future_seconds: float) -> None:
        """Select the times that the resource's envelopes have; `future_seconds` is BROKERAGE_FUTURE_SECONDS."""
        self._names = ("updated_at", *(name for name in _TIMES if name in resource.envelope_members))
        self._future_seconds = future_seconds

    def check(self, envelope: Any) -> None:
        """Raise InvalidRecordError for a time that is further ahead than a mislabelled time zone explains."""
        latest = latest_microseconds(self._future_seconds)
        for name in self._names:
            time = getattr(envelope, name)
            if time is not None and epoch_microseconds(time) > latest:
                raise InvalidRecordError(name, self._reason(time))

    def _reason(self, time: dt.datetime) -> str:
        stated = time.isoformat(timespec="seconds")
        return (
            f"is {stated}, more than {self._future_seconds:g} s (BROKERAGE_FUTURE_SECONDS) ahead of this host's clock: "
            "correct the time at the source and send the record again"
        )


IdentifierDecoder = Callable[[bytes], Any]

# What a decoder raises for invalid lines.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError)


def identifier_decoder(resource: Resource) -> IdentifierDecoder:
    """Return the function that decodes the identifier of an envelope, as it is stored; it raises DECODE_ERRORS."""
    renamed = {"identifier": resource.identifier}
    record = msgspec.defstruct("Identified", [("identifier", str)], rename=renamed)
    decode = msgspec.json.Decoder(msgspec.defstruct("IdentifiedEnvelope", [("record", record)])).decode

    def identifier(data: bytes) -> str:
        given: str = decode(data).record.identifier  # type: ignore[attr-defined]
        return resource.canonical_identifier(given) or given

    return identifier


def identifiers_of(decode: IdentifierDecoder, data: bytes, resource: Resource) -> frozenset[str] | None:
    """Return the identifiers of the records that an invalid line is about, None if they are unknown."""
    try:
        return frozenset({decode(data)})
    except DECODE_ERRORS:
        recovered = recovered_identifiers(data, resource.identifier)
        return None if recovered is None else stored_identifiers(recovered, resource)


def stored_identifiers(identifiers: frozenset[str], resource: Resource) -> frozenset[str]:
    """Return identifiers as they are stored; invalid ones stay as they are."""
    return frozenset(resource.canonical_identifier(identifier) or identifier for identifier in identifiers)
