"""What the texts and codes of exports mean where a field has few values: statuses and types of property.

A guess is a proposal that the operator is told of; where there is none, nothing is assumed.
"""

from collections.abc import Mapping

from indexer.drafting.columns import folded
from mappings.listing import PROPERTY_TYPES, STATUSES

# Codes, which are whole texts; folded.
_STATUS_CODES = {
    "Active": "a act new bom pc rea ext",
    "Pending": "p pnd pend u uc ua uag stc sstc",
    "Contingent": "ctg cont auc",
    "ComingSoon": "cs csn",
    "Sold": "c cl cls clsd s sld",
    "Expired": "x exp",
    "Canceled": "can cancelled",
    "Withdrawn": "w wth wdn",
    "TempOffMarket": "t tom toma h",
}
# Parts of longer texts. The first that a text has counts: "Sold STC" is not sold yet. A text with one of the first says
# what a listing is not.
_STATUS_PARTS = {
    None: "not longer inactive unavailable unsold",
    "Contingent": "contingen kick activeunder",
    "Pending": "pending contract agreement offer stc subject option escrow deposit reserved",
    "ComingSoon": "coming",
    "TempOffMarket": "temp hold offmarket",
    "Withdrawn": "withdrawn removed",
    "Canceled": "cancel terminated",
    "Expired": "expired",
    "Sold": "sold closed settled completed",
    "Active": "active reactivated forsale available onmarket pricechange extended",
}
_TYPE_CODES = {
    "Residential": "r res sf sfr sfh sfd det",
    "Condo": "cnd con co",
    "Townhouse": "th twn tnh",
    "Multifamily": "mf mul mfr ri dup",
    "Land": "l lnd",
    "Mfghome": "mh mfd mob",
    "Farm/Ranch": "frm",
    "Rental": "rnt rl",
    "Commerical": "com ci cm",
    "Apartment": "apt",
}
_TYPE_PARTS: dict[str | None, str] = {
    "Commercial Lease": "commerciallease",
    "Business Opportunity": "business",
    "Commerical": "commercial office retail",
    "Co-op": "coop cooperative",
    "Condo": "condo",
    "Townhouse": "townho rowho",
    "Mfghome": "manuf mobile modular",
    "Multifamily": "multi duplex triplex plex income",
    "Farm/Ranch": "farm ranch",
    "Rental": "rental lease",
    "Land": "land acreage vacant",
    "Apartment": "apartment",
    "Timeshare": "timeshare",
    "Residential": "resid single detached house home villa bungalow",
}


class Choices:
    """The values of a field, and what other texts mean; the `fallback` is for texts whose meaning is unknown."""

    def __init__(
        self,
        values: tuple[str, ...],
        codes: Mapping[str, str],
        parts: Mapping[str | None, str],
        fallback: str | None = None,
    ) -> None:
        self.own = {folded(value): value for value in values}
        self._codes = {code: value for value, several in codes.items() for code in several.split()} | self.own
        self._parts = parts
        self._fallback = fallback

    def meaning(self, text: str) -> str | None:
        """Return the value that a text probably means, None if that is unknown."""
        name = folded(text)
        by_part = (one for one, parts in self._parts.items() if any(part in name for part in parts.split()))
        return self._codes.get(name) or next(by_part, self._fallback)


CHOICES = {
    "Status": Choices(STATUSES, _STATUS_CODES, _STATUS_PARTS),
    "PropertyType": Choices(tuple(PROPERTY_TYPES.values()), _TYPE_CODES, _TYPE_PARTS, "Not Found"),
}
