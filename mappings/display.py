"""What sellers opt out of showing, which keys with a display licence must leave out (decision 36).

An absent or null switch allows, as in the RESO Data Dictionary. Documents have a flag only for what is refused.
"""

from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any

import msgspec

from mappings.search_fields import refusal


class DisplayLicence(StrEnum):
    """The licences by which a partner shows listings to the public."""

    IDX = "idx"


LISTING_SWITCH, ADDRESS_SWITCH = "InternetEntireListingDisplayYN", "InternetAddressDisplayYN"
# The search fields that are true if the switch is false.
WITHHELD, ADDRESS_HIDDEN = "withheld", "address_hidden"
OPT_OUTS = (refusal(WITHHELD, LISTING_SWITCH), refusal(ADDRESS_HIDDEN, ADDRESS_SWITCH))
_KEYS = {switch: f'"{switch}":'.encode() for switch in (LISTING_SWITCH, ADDRESS_SWITCH)}
# The switches are within so many bytes, unless remarks are very long; searching costs a tenth of decoding.
_HEAD_BYTES = 2_048
_F = ord("f")
# Where a property lies. The parcel number leads to the address in any county's register.
ADDRESS_MEMBERS = frozenset(
    {
        "Address",
        "Address2",
        "City",
        "Community",
        "CountyOrParish",
        "Latitude",
        "Longitude",
        "PostalCode",
        "StateOrProvince",
        "TaxParcelId",
    }
)


def refuses(record: bytes | memoryview, switch: str) -> bool:
    """Return whether a switch of an encoded record is false."""
    key = _KEYS[switch]
    # The indexer writes only plain values before the switches, so the first key found is the record's own.
    head = bytes(record[:_HEAD_BYTES])
    at = head.find(key)
    if at < 0 or head.find(b"{", 1, at) >= 0:
        return _decoder(switch)(record).switch is False
    return record[at + len(key)] == _F


@cache
def _decoder(switch: str) -> Callable[[bytes | memoryview], Any]:
    switches = msgspec.defstruct("Switches", [("switch", Any, None)], rename={"switch": switch})
    return msgspec.json.Decoder(switches).decode
