"""Days on market are filled where the source of a sale lacks them; elsewhere they would be wrong the next day."""

import msgspec
import pytest

from mappings import LISTING, SOLD_LISTING, Resource
from tests.indexer.parsed_lines import parse_line
from tests.records import envelope


@pytest.mark.parametrize(
    ("resource", "given", "days"),
    [
        (SOLD_LISTING, {"ListingContractDate": "2026-01-02", "SoldDate": "2026-03-01"}, 58),
        (SOLD_LISTING, {"ListingContractDate": "2026-01-02", "SoldDate": "2026-01-02"}, 0),
        (SOLD_LISTING, {"ListingContractDate": "2026-01-02", "SoldDate": "2026-01-01"}, None),
        (SOLD_LISTING, {"ListingContractDate": None, "SoldDate": "2026-01-02"}, None),
        (SOLD_LISTING, {"ListingContractDate": "2026-01-02", "SoldDate": None}, None),
        (SOLD_LISTING, {"ListingContractDate": "2026-01-02", "SoldDate": "2026-03-01", "DaysOnMarket": 7}, 7),
        (LISTING, {"ListingContractDate": "2026-01-02", "Status": "Active"}, None),
        (LISTING, {"ListingContractDate": "2026-01-02", "Status": "Expired"}, None),
    ],
)
def test_days_on_market(resource: Resource, given: dict[str, object], days: int | None) -> None:
    document = parse_line(resource, envelope(resource, {"DaysOnMarket": None, **given}))
    assert document.record is not None
    assert msgspec.json.decode(document.record)["DaysOnMarket"] == days
