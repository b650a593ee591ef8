"""What of a record a key may not see: the hashes of its content, and what sellers opt out of showing (decision 36).

A hash that covers a member confirms guesses of its value. So documents have, besides the hash of their whole content, a
hash for each set of guarded members that a key may not see, which covers nothing of it. Members of single records alone
are covered by the whole content only, because the feed does not show them.

Sellers opt out by switches, which keys with a display licence follow. An absent or null switch allows, as in the RESO
Data Dictionary. Documents have a flag only for what is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from hashlib import sha256
from itertools import chain, combinations
from typing import Any

import msgspec

from mappings.fields import Field, View
from mappings.search_fields import FieldMapping, FieldOrigin, SearchField, refusal

_NAME_DIGITS = 6
_LONG: FieldMapping = {"type": "long", "index": False}


@dataclass(frozen=True)
class ShownContent:
    """The names of the search fields with a content hash and the halves of the record hash made of it.

    `hidden` are the members that it does not cover. Names of restricted hashes derive from them, so an index that was
    built when other members were guarded lacks the field, which the service notices. `address` are members that it
    does not cover either in records whose address is hidden; these have the hash of `without_address`.
    """

    hidden: frozenset[str] = frozenset()
    address: frozenset[str] = frozenset()

    @property
    def without_address(self) -> ShownContent:
        return ShownContent(self.hidden | self.address)

    def with_optional(self, address: frozenset[str]) -> ShownContent:
        return replace(self, address=address)

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.content, self.without_address.content})

    @property
    def content(self) -> str:
        return f"content{self._suffix}"

    @property
    def proof_high(self) -> str:
        return f"proof_high{self._suffix}"

    @property
    def proof_low(self) -> str:
        return f"proof_low{self._suffix}"

    @property
    def search_fields(self) -> tuple[SearchField, ...]:
        names = (self.content, self.proof_high, self.proof_low)
        return tuple(SearchField(name=name, mapping=_LONG, origin=FieldOrigin.INDEXER) for name in names)

    @property
    def _suffix(self) -> str:
        digits = sha256(",".join(sorted(self.hidden)).encode()).hexdigest()[:_NAME_DIGITS]
        return f"_{digits}" if self.hidden else ""


WHOLE_CONTENT = ShownContent()


def guarded_members(fields: tuple[Field, ...], volatile: Collection[str]) -> tuple[Field, ...]:
    return tuple(field for field in fields if field.group and field.name not in volatile)


def shown_content(guarded: tuple[Field, ...], withheld: Collection[str]) -> ShownContent:
    """Return what a key is shown that may not see the field groups `withheld`."""
    if all(field.group not in withheld for field in guarded):
        return WHOLE_CONTENT
    hidden = (field.name for field in guarded if field.group in withheld or View.INDEX not in field.views)
    return ShownContent(frozenset(hidden))


def restricted_contents(guarded: tuple[Field, ...]) -> tuple[ShownContent, ...]:
    """Return the content of every possible set of withheld groups, except none; their number doubles with each."""
    contents = dict.fromkeys(shown_content(guarded, withheld) for withheld in _group_sets(guarded))
    return tuple(content for content in contents if content.hidden)


def _group_sets(guarded: tuple[Field, ...]) -> Iterator[tuple[str, ...]]:
    groups = sorted({field.group for field in guarded})
    return chain.from_iterable(combinations(groups, count) for count in range(1, len(groups) + 1))


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
