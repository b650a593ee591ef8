"""What sellers opt out of showing, which keys with a display licence must leave out (decision 36).

An absent or null switch allows, as in the RESO Data Dictionary. Documents have a flag only for what is refused.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from mappings.search_fields import refusal

if TYPE_CHECKING:
    from collections.abc import Callable


class DisplayLicence(StrEnum):
    """The licences by which a partner shows listings to the public."""

    IDX = "idx"


LISTING_SWITCH, ADDRESS_SWITCH = "InternetEntireListingDisplayYN", "InternetAddressDisplayYN"
# The search fields that are true if the switch is false.
WITHHELD, ADDRESS_HIDDEN = "withheld", "address_hidden"
OPT_OUTS = (refusal(WITHHELD, LISTING_SWITCH), refusal(ADDRESS_HIDDEN, ADDRESS_SWITCH))
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
    refused, decode = _refusal_reader(switch)
    # Most records do not: searching costs a fraction of decoding.
    return refused in bytes(record) and decode(record).switch is False


@cache
def _refusal_reader(switch: str) -> tuple[bytes, Callable[[bytes | memoryview], Any]]:
    switches = msgspec.defstruct("Switches", [("switch", Any, None)], rename={"switch": switch})
    return f'"{switch}":false'.encode(), msgspec.json.Decoder(switches).decode
