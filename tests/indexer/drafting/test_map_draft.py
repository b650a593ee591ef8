"""Drafts of column maps: what columns are taken for, and maps that can be used as they are."""

import gzip
import tomllib
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from indexer import SourceError, open_source
from indexer.drafting.columns import CHOICES, Confidence, field_of_column
from indexer.drafting.map_draft import MapDraft, NewCompany, draft_map
from indexer.inspection import check_source
from indexer.source import files
from mappings import AGENT, LISTING, OFFICE, SOLD_LISTING, Resource
from tests.indexer.source.tables.table_folder import records_of, write_map
from tests.internals import Internals

COLUMNS = "MLS #;Status;List Price;Street Number;Street Name;Zip;Beds;Baths;Lot SqFt;List Date;Agent ID;Photos;Pool"
EXPORT = f"""{COLUMNS};Modified;Own
A 1;A;$1.200.000;5;Elm;10580;3;2,5;43.560;9/22/2024;17;http://a/1|http://a/2;Yes;2024-10-01 10:00;x
A 2;P;$950.000;7;Oak;10580;4;2;21.780;10/2/2024;18;http://a/3;no;2024-10-02 11:00;N/A
"""


def drafted(folder: Path, text: str, name: str = "listings.csv", **options: Any) -> MapDraft:
    (folder / name).write_text(text)
    return draft_map([str(folder / name)], folder, **options)


def test_a_draft_with_everything_that_is_needed_can_be_used(tmp_path: Path) -> None:
    draft = drafted(tmp_path, EXPORT, company="acme")
    assert draft.missing == []
    name = write_map(tmp_path, draft.text)
    with open_source(name) as source:
        assert check_source(source).bad == 0
    assert records_of(name)[0] == {
        "LotSizeAcres": 1,
        "LotSizeSquareFeet": 43_560,
        "BathroomsFull": 2,
        "BathroomsHalf": 1,
        "BathroomsTotal": 2.5,
        "BedroomsTotal": 3,
        "ListingContractDate": "2024-09-22",
        "ListPrice": 1_200_000,
        "ListAgentUUID": "242955fc-42f9-5bcd-b1ec-ca1db116695d",
        "Address": "5 Elm",
        "PostalCode": "10580",
        "PoolYN": True,
        "Status": "Active",
        "PlatformListingId": "A-1",
        "ListingID": "A 1",
        "ListingImages": [{"FullURL": "http://a/1"}, {"FullURL": "http://a/2"}],
    }
    assert '# Columns that are not read: "Own"\n' in draft.text


def test_what_cannot_be_known_is_a_comment(tmp_path: Path) -> None:
    draft = drafted(
        tmp_path, "Nick,Price,Status,Postl Code,Amount,Pool\nx,many,A,10580,$5,maybe\ny,1,Odd,10580,$6,no\n"
    )
    assert draft.missing == ["platform_company_id", "listings.record.PlatformListingId"]
    declared = tomllib.loads(draft.text)["listings"]["record"]
    assert declared == {"Status": {"column": "Status", "map": {"A": "Active"}}}
    for line in (
        '# platform_company_id = "..."',
        '# ListPrice = {column = "Price"}  # not all values are numbers',
        'Status = {column = "Status", map = {"A" = "Active"}}  # check: A = Active; add to the map, or their rows are',
        '# PostalCode = {column = "Postl Code"}  # guessed by values or similar names',
        '# PoolYN = {column = "Pool", map = {"maybe" = false, "no" = false}}  # set what each text means',
    ):
        assert line in draft.text


@pytest.mark.parametrize(
    ("resource", "column", "field", "confidence"),
    [
        (LISTING, "ListPrice", "ListPrice", Confidence.CERTAIN),
        (LISTING, "list_price", "ListPrice", Confidence.CERTAIN),
        (LISTING, "LIST PRICE", "ListPrice", Confidence.CERTAIN),
        (LISTING, "SubdivisionName", "Community", Confidence.HIGH),
        (LISTING, "ListingKey", "PlatformListingId", Confidence.HIGH),
        (LISTING, "Asking Price", "ListPrice", Confidence.HIGH),
        (LISTING, "Bedroms Total", "BedroomsTotal", Confidence.LOW),
        (SOLD_LISTING, "ClosePrice", "SoldPrice", Confidence.HIGH),
        (AGENT, "MemberKey", "platform_agent_id", Confidence.HIGH),
        (AGENT, "E-Mail", "primary_email_address", Confidence.HIGH),
        (OFFICE, "OfficeKey", "platform_office_id", Confidence.HIGH),
    ],
)
def test_columns_are_recognised_by_name(resource: Resource, column: str, field: str, confidence: Confidence) -> None:
    assert field_of_column(resource, column) == (field, confidence)


def test_a_column_with_another_name_is_not_recognised() -> None:
    assert field_of_column(LISTING, "Whatever") is None


def test_headers_of_usual_exports_need_no_editing() -> None:
    """Each file as a line of headings, and the fields that they mean; * is a column that no field is for."""
    usual = {
        (LISTING, "Listing No,Stat,Addr,City/Town,Zip,Price,Baths,Yr Built,Acres,Agent No,Last Chg"): (
            "PlatformListingId Status Address City PostalCode ListPrice BathroomsTotal YearBuilt LotSizeAcres "
            "ListAgentUUID updated_at"
        ),
        (SOLD_LISTING, "MLSNo,Closed,Close Price,Agent No,Office Code,Agent Email,Bdrms,Liv Area,Prop Type"): (
            "PlatformListingId SoldDate SoldPrice ListAgentUUID ListAgentPlatformOfficeID * BedroomsTotal LivingArea "
            "PropertyType"
        ),
        (LISTING, "Ref,Address 1,Address 2,Town,Post Code,Asking Price,Negotiator,Date Added,Subdiv Name,Orig Price"): (
            "PlatformListingId Address Address2 City PostalCode ListPrice ListAgentFullName CreatedDate Community *"
        ),
        (AGENT, "Agent Code,First,Last,Agent Email,Cell Phone,Ofc No,Lic"): (
            "platform_agent_id first_name last_name primary_email_address mobile_phone_number platform_office_id *"
        ),
        (OFFICE, "Office Code,Branch Name,Addr,City/Town,St,Post Code,Tel"): (
            "platform_office_id name address city state zip_code phone"
        ),
    }
    for (resource, headings), fields in usual.items():
        found = [field_of_column(resource, heading) for heading in headings.split(",")]
        assert " ".join(one.name if one else "*" for one in found) == fields


@pytest.mark.parametrize(
    ("field", "meaning", "texts"),
    [
        ("Status", "Active", "A,New,For Sale,Back on Market,Price Change"),
        ("Status", "Pending", "P,Under Agreement,Sold STC,Under Offer,Active Option Contract"),
        ("Status", "Contingent", "Active - Contingent,Active Under Contract"),
        ("Status", "Sold", "S,Closed,Sold Inner Office"),
        ("Status", "TempOffMarket", "Temporarily Off Market,Hold"),
        ("Status", None, "Inactive,Not Sold,No longer active,Draft,Odd"),
        ("PropertyType", "Residential", "RES,SFR,Single Family Residence"),
        ("PropertyType", "Condo", "CND,Condominium"),
        ("PropertyType", "Multifamily", "MF,Duplex"),
        ("PropertyType", "Not Found", "Igloo"),
    ],
)
def test_what_exports_write_for_a_status_or_a_type_is_guessed(field: str, meaning: str | None, texts: str) -> None:
    found = {text: CHOICES[field].meaning(text) for text in texts.split(",")}
    assert found == dict.fromkeys(texts.split(","), meaning)


def test_a_guess_is_said(tmp_path: Path) -> None:
    text = "MLS #,Status,Lot Size,Agent Email\n1,A,5000,a@b.c\n2,Sold STC,6000,a@b.c\n"
    (table,) = drafted(tmp_path, text, company="acme").tables
    assert {guess.column: guess.draft.note for guess in table.guesses if guess.draft.note} == {
        "Status": "check: A = Active, Sold STC = Pending",
        "Lot Size": "perhaps LotSizeAcres or LotSizeSquareFeet",
    }


def test_a_column_without_values_does_not_make_listings_sales(tmp_path: Path) -> None:
    listings = "MLS #,Status,Price,Close Price,Close Date\n1,A,5,,\n"
    assert drafted(tmp_path, listings, "export.csv").tables[0].resource is LISTING
    assert drafted(tmp_path, listings.replace("5,,", "5,6,2026-01-02"), "export.csv").tables[0].resource is SOLD_LISTING


def test_the_number_of_an_mls_is_the_identifier_where_there_is_no_other(tmp_path: Path) -> None:
    draft = drafted(tmp_path, "listing_id,status,price\n1,Active,5\n", company="acme")
    assert draft.missing == []
    assert records_of(write_map(tmp_path, draft.text)) == [
        {"PlatformListingId": "1", "ListingID": "1", "Status": "Active", "ListPrice": 5}
    ]


@pytest.mark.parametrize(
    ("name", "header", "status"),
    [
        ("listings.csv", "id,price", None),
        ("all-active.csv", "id,price", "Active"),
        ("inactive.csv", "id,price", None),
        ("sold.csv", "id,close price", "Sold"),
    ],
)
def test_the_status_of_a_table_without_one_follows_from_its_name_or_is_missing(
    tmp_path: Path, name: str, header: str, status: str | None
) -> None:
    draft = drafted(tmp_path, f"{header}\n1,5\n", name, company="acme")
    assert draft.missing == ([] if status else ["listings.record.Status"])
    (table,) = [one for one in tomllib.loads(draft.text).values() if isinstance(one, dict)]
    assert table["record"].get("Status") == status


def test_a_new_company_is_defined_and_a_live_one_is_named(tmp_path: Path) -> None:
    text = "id,price,status\n1,5,Active\n"
    assert tomllib.loads(drafted(tmp_path, text, company="acme").text)["platform_company_id"] == "acme"
    for is_certain in (True, False):
        draft = drafted(tmp_path, text, company="acme", definition=NewCompany("Acme", is_certain))
        defined = tomllib.loads(draft.text)
        assert defined["company"] == {"platform_company_id": "acme", "name": "Acme"}
        assert ("# Elasticsearch could not be asked" in draft.text) is not is_certain
        with open_source(write_map(tmp_path, draft.text)) as source:
            found = check_source(source)
        assert (found.bad, found.companies) == (0, [])


@pytest.mark.parametrize(
    ("value", "other", "written"),
    [
        ("2024-09-22", "2024-10-01", '{column = "List Date"}'),
        ("09/22/24", "10/01/24", 'format = "%m/%d/%y"'),
        ("22.09.2024", "01.10.2024", 'format = "%d.%m.%Y"'),
        ("Sep 22, 2024", "Oct 1, 2024", 'format = "%b %d, %Y"'),
        ("9/22/2024 1:30 PM", "10/1/2024 2:30 AM", 'format = "%m/%d/%Y %I:%M %p"'),
        ("01/02/2024", "03/04/2024", 'format = "%m/%d/%Y"}  # day and month could be exchanged'),
        ("soon", "later", '# ListingContractDate = {column = "List Date", format = "%Y"}  # set the format'),
    ],
)
def test_formats_of_dates_are_recognised(tmp_path: Path, value: str, other: str, written: str) -> None:
    assert written in drafted(tmp_path, f'id,List Date\n1,"{value}"\n2,"{other}"\n').text


def test_several_files_are_tables_by_their_columns(tmp_path: Path) -> None:
    (tmp_path / "listings").mkdir()
    (tmp_path / "listings" / "a.csv").write_text("ListingKey,ListPrice\n1,5\n")
    (tmp_path / "listings" / "b.csv.gz").write_bytes(gzip.compress(b"ListPrice,ListingKey\n$6,2\n"))
    (tmp_path / "listings" / "c.csv").write_text("ListingKey,City\n3,Rye\n")
    (tmp_path / "members.csv").write_text("MemberKey,MemberEmail\n1,a@b.c\n")
    (tmp_path / "sales.csv").write_text("ListingKey,ClosePrice,CloseDate\n1,5,2024-01-01\n")
    names = [str(tmp_path / name) for name in ("listings", "members.csv", "sales.csv")]
    draft = draft_map(names, tmp_path, company="acme")
    assert [(table.resource, table.files) for table in draft.tables] == [
        (LISTING, ["listings/a.csv", "listings/b.csv.gz"]),
        (AGENT, ["members.csv"]),
        (SOLD_LISTING, ["sales.csv"]),
    ]
    assert '# "listings/c.csv" has other columns than the files below' in draft.text
    assert 'currency = ["$"]' in draft.text
    [agent] = records_of(write_map(tmp_path, draft.text), AGENT)
    assert (agent["platform_agent_id"], agent["primary_email_address"]) == ("1", "a@b.c")
    assert UUID(agent["agent_uuid"]).version == 5
    assert [one["ListPrice"] for one in records_of(write_map(tmp_path, draft.text))] == [5, 6]


@pytest.mark.parametrize("text", ["", "a,b\n", "a\n\n\n"])
def test_tables_without_rows_are_drafted_or_named(tmp_path: Path, text: str) -> None:
    if text.strip():
        assert drafted(tmp_path, text).missing
    else:
        with pytest.raises(SourceError, match=r"listings\.csv has no header: its first line is empty"):
            drafted(tmp_path, text)


class CountedReads:
    """Counts the bytes that rows of tables are made of."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.read, read1 = 0, files.Beginning.readinto

        def counted(beginning: files.Beginning, buffer: Any) -> int:
            size = read1(beginning, buffer)
            self.read += size
            return size

        monkeypatch.setattr(files.Beginning, "readinto", counted)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (b"\n" * 2**20, r"has no header: its first [\d,]+ lines are blank"),
        (b"x" * 2**20, r"has no header: its first line has more than 1,048,576 bytes"),
        (b"x,y\n1,2\n" + b"x" * 2**20, r"line 3 has more than 1,048,576 bytes: is the end of a line"),
        (b'x,y\n1,"' + b"2" * 2**20, r"line 2 has more than 1,048,576 bytes: .* quotation mark missing"),
    ],
)
def test_a_draft_reads_the_beginning_of_a_file_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: bytes, said: str
) -> None:
    """64 MiB of it; it may be a compressed file of a few kilobytes."""
    reads = CountedReads(monkeypatch)
    (tmp_path / "listings.csv.gz").write_bytes(gzip.compress(block + block[-1:] * 2**26, 1))
    with pytest.raises(SourceError, match=rf"^listings\.csv\.gz:? {said}"):
        draft_map([str(tmp_path / "listings.csv.gz")], tmp_path)
    assert reads.read <= 2**24 + 2**22


def test_the_encoding_of_a_file_without_an_end_is_known_from_its_beginning(
    tmp_path: Path, internals: Internals
) -> None:
    internals(detected_bytes=2**21)
    text = "City,Status\n" + "Rye,Active\n" * 300_000 + "Orl\xe9ans,Active\n"
    (tmp_path / "listings.csv").write_bytes(text.encode("cp1252"))
    assert 'encoding = "utf-8"' in draft_map([str(tmp_path / "listings.csv")], tmp_path).text
    internals(detected_bytes=2**30)
    assert 'encoding = "cp1252"' in draft_map([str(tmp_path / "listings.csv")], tmp_path).text


@pytest.mark.parametrize(
    ("column", "values", "written"),
    [
        (
            "MLS Number",
            ["73289979.0", "73289980.0"],
            'PlatformListingId = {column = "MLS Number", whole = true}  # 2 values of 2 with a decimal point, as data',
        ),
        (
            "MLS Number",
            ["73289979", "7.33E+07"],
            "whole = true}  # 1 value in scientific notation, which has lost digits: export the column as text; until",
        ),
        ("MLS Number", ["1.0", "1.5"], '{column = "MLS Number"}  # 1 value of 2 with a decimal point, as data frames'),
        (
            "MLS Number",
            ["73289979", "73289980", "73289981", "73289982", "3289979"],
            '{column = "MLS Number"}  # 1 value with fewer than 8 digits: if zeros in front are lost, set pad = 8',
        ),
        ("Zip", ["2134", "02115"], '{column = "Zip", pad = 5}  # 1 value with fewer than 5 digits: zeros in front'),
        ("Zip", ["2114.0", "10580.0"], '{column = "Zip", whole = true, pad = 5}  # '),
        ("Zip", ["2134", "2115"], '{column = "Zip"}\n'),
        ("Agent ID", ["17.0", "nan"], '{uuid5 = "agent {Agent ID}", whole = true}  # 1 value of 1 with a decimal'),
        ("Pool", ["1.0", "0.0", "True"], 'PoolYN = {column = "Pool", whole = true}  # 2 values of 3 with a decimal'),
        ("Price", ["$475K", "$1.2M", "$612,500"], 'units = {"K" = 1000, "M" = 1000000}}  # numbers with K, M'),
        ("Price", ["0", "475000"], 'ListPrice = {column = "Price", empty_if = [0]}  # 0 means no value'),
        ("Price", ["9999999", "475000"], '{column = "Price"}  # 9999999: if it means no value, add it to empty_if'),
        ("Acres", ["0.25 ac", "3.2 Acres", ""], 'LotSizeAcres = {column = "Acres", units = {"ac" = 1, "Acres" = 1}}'),
        ("Acres", ["0.25 ha"], '# LotSizeAcres = {column = "Acres"}  # not all values are numbers'),
        ("Lot SqFt", ["9,000 sf"], 'LotSizeAcres = {formula = "{Lot SqFt} / 43560", units = {"sf" = 1}}'),
        ("Latitude", ["0.0", "42.1"], 'Latitude = {column = "Latitude", empty_if = [0]}  # 0 means no value'),
        ("Year Built", ["0", "1988"], 'YearBuilt = {column = "Year Built", empty_if = [0]}  # 0 means no value'),
        ("Year Built", ["inf", "1988"], 'empty = ["inf"]'),
        (
            "List Date",
            ["0000-00-00", "1900-01-01", "2026-01-02"],
            '{column = "List Date", empty_if = ["0000-00-00", "1900-01-01"]}  # no dates: 0000-00-00, 1900-01-01',
        ),
        (
            "List Date",
            ["11/13/2026", "2026-11-03", "Nov 3, 2026"],
            'format = ["%m/%d/%Y", "ISO", "%b %d, %Y"]}  # dates in several forms: the first that fits counts\n',
        ),
        ("List Date", ["11/13/2026", "13/11/2026"], "# ListingContractDate = "),
        (
            "Baths",
            ["3/1", "2"],
            'BathroomsTotal = {column = "Baths", split = "/", weights = [1, 0.5]}  # full and half',
        ),
        ("Baths", ["3/1", "2"], 'BathroomsHalf = {column = "Baths", split = "/", weights = [0, 1]}'),
        ("ListingID", ["12", "13"], 'PlatformListingId = {column = "ListingID"}'),
    ],
)
def test_what_repairs_damaged_cells_is_drafted_with_the_reason(
    tmp_path: Path, column: str, values: list[str], written: str
) -> None:
    rows = "".join(f'Active,"{value}"\n' for value in values)
    draft = drafted(tmp_path, f"Status,{column}\n{rows}", resource=LISTING)
    assert written in draft.text
    assert all(guess.confidence is not Confidence.CERTAIN for guess in draft.tables[0].guesses if guess.draft.note)


def test_zip_codes_that_all_lack_a_zero_are_those_of_a_state(tmp_path: Path) -> None:
    assert "pad = 5" in drafted(tmp_path, "State,Zip\nMA,2134\nMA,2115\n").text


def test_a_table_of_a_data_frame_is_read_as_it_was_meant(tmp_path: Path) -> None:
    table = (
        "listing_id,status,price,state,zip,baths,agent_id,list_date,latitude\n"
        "73289979.0,Active,500000.0,MA,2114.0,3/1,103378.0,2026-09-17,42.1\n"
        "73289980.0,Active,5e5,MA,2115.0,2,nan,0000-00-00,0.0\n"
    )
    name = write_map(tmp_path, drafted(tmp_path, table, company="acme").text)
    agent = '{uuid5 = "agent {agent_id}"}'
    first, second = records_of(name)
    (tmp_path / "plain.csv").write_text("agent_id\n103378\n")
    plain = 'resource = "listings"\nfile = "plain.csv"\nplatform_company_id = "acme"\nupdated_at = "on change"\n'
    record = f'[record]\nPlatformListingId = "1"\nListAgentUUID = {agent}\n'
    [healthy] = records_of(write_map(tmp_path, plain + record, "plain.toml"))
    assert (first["PlatformListingId"], first["PostalCode"], first["ListAgentUUID"]) == (
        *("73289979", "02114"),
        healthy["ListAgentUUID"],
    )
    assert (first["BathroomsFull"], first["BathroomsHalf"], first["BathroomsTotal"]) == (3, 1, 3.5)
    assert (second["PlatformListingId"], second["ListPrice"], second["BathroomsHalf"]) == ("73289980", 500_000, 0)
    assert not {"ListAgentUUID", "ListingContractDate", "Latitude"} & second.keys()
