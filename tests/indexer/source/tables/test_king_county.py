"""The example of a column map: real house sales, from a CSV file to what is served."""

import gzip
import shutil
from importlib.resources import files
from pathlib import Path

from indexer import IndexerSettings, open_source
from indexer.documents.companies import companies_from_source
from indexer.documents.line_parser import ChunkReader, LineParser
from mappings import COMPANY, SOLD_LISTING
from tests.indexer.conftest import Bench

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "king_county.toml"
ROWS = 202


async def test_the_example_is_built_on_an_empty_cluster(bench: Bench) -> None:
    with open_source(str(EXAMPLE)) as source:
        summary = await bench.build_source(source)
    assert summary.exit_code == 0
    assert (summary.report_for("companies").indexed, summary.report_for("sold_listings").indexed) == (1, ROWS)
    sold = await bench.served(SOLD_LISTING)
    assert len(sold) == ROWS
    first = sold["kc-7129300520-2014-10-13"]
    assert first["company"] == "king-county"
    assert {name: value for name, value in first["record"].items() if value not in (None, [])} == {
        "PlatformListingId": "kc-7129300520-2014-10-13",
        "ListingID": "7129300520-2014-10-13",
        "TaxParcelId": "7129300520",
        "Status": "Sold",
        "ModificationTimestamp": "2014-10-13T00:00:00Z",
        "OnMarket": False,
        "SoldDate": "2014-10-13",
        "SoldPrice": 221900,
        "PropertyType": "Residential",
        "BedroomsTotal": 3,
        "BathroomsTotal": 1,
        "LivingArea": 1180,
        "LotSizeSquareFeet": 5650,
        "SingleStory": True,
        "WaterfrontYN": False,
        "ViewYN": False,
        "YearBuilt": 1955,
        "StateOrProvince": "WA",
        "CountyOrParish": "King",
        "PostalCode": "98178",
        "Latitude": "47.5112",
        "Longitude": "-122.257",
        "PropertyFeatures": [
            {"PropertyFeatureName": "Condition, 1 to 5", "PropertyFeatureValues": ["3"]},
            {"PropertyFeatureName": "Grade, 1 to 13", "PropertyFeatureValues": ["7"]},
        ],
    }
    parcels = [document["record"]["TaxParcelId"] for document in sold.values()]
    assert len(parcels) - len(set(parcels)) == 5  # houses that were sold twice


def test_every_row_of_the_whole_table_is_accepted(tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    packed = files("sample").joinpath("data", "king_county_sales.csv.gz").read_bytes()
    (tmp_path / "king_county.csv").write_bytes(packed)
    extract = EXAMPLE.with_suffix(".csv").read_bytes().splitlines()
    assert [line for line in gzip.decompress(packed).splitlines() if line in set(extract)] == extract
    read, identifiers = 0, set[str]()
    with open_source(str(tmp_path / EXAMPLE.name)) as source, source.open(SOLD_LISTING) as reading:
        companies = companies_from_source(source)
        assert source.has(COMPANY)
        chunks = ChunkReader(LineParser(SOLD_LISTING, companies), reading, IndexerSettings())
        while (chunk := chunks.read()) is not None:
            assert chunk.rejected == []
            read += chunk.read
            identifiers.update(draft.id for draft in chunk.drafts)
    assert read == len(identifiers) == 21_613
