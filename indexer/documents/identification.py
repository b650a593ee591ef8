"""The identifier of an envelope, whether or not the rest of it is valid."""

from collections.abc import Callable
from typing import Any

import msgspec

from indexer.source.recovery import recovered_identifiers
from mappings import Resource

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
    return frozenset(resource.canonical_identifier(each) or each for each in identifiers)
