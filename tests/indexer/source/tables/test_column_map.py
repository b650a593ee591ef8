"""Column maps: what they declare, what cells become, and which rows and files are refused with which words."""

import os
from pathlib import Path
from typing import Any

import orjson
import pytest

from indexer import RejectedLine, SourceError, open_source
from indexer.source.tables.column_map import envelope_fields
from mappings import COMPANY, LISTING, OFFICE, RESOURCES, Resource
from tests.indexer.parsed_lines import parse_line
from tests.indexer.source.packing import PACKERS

COLUMNS = "id,changed,price,street,no,kind,pool,day"
LISTED = COLUMNS.replace(",", ", ")
ROW = "7,2026-01-02,100,Elm,5,H,yes,03.02.2026"
RECORD = 'PlatformListingId = {column = "id"}'
HEAD = 'file = "table.csv"\nplatform_company_id = "acme"\nupdated_at = {column = "changed"}\n'


def write(folder: Path, record: str, *rows: str, head: str = HEAD, resource: Resource = LISTING) -> str:
    """Write a column map and its table; return the column map's name."""
    (folder / "table.csv").write_text("\n".join([COLUMNS, *rows]), encoding="utf-8")
    (folder / "map.toml").write_text(f'resource = "{resource.alias}"\n{head}[record]\n{record}\n', encoding="utf-8")
    return str(folder / "map.toml")


def read(name: str, resource: Resource = LISTING) -> list[dict[str, Any] | RejectedLine]:
    """Return the envelopes and faults of a source."""
    with open_source(name) as source, source.open(resource) as reading:
        return [item if isinstance(item, RejectedLine) else orjson.loads(item.data) for item in reading.lines]


def refused(folder: Path, record: str, *rows: str, head: str = HEAD, resource: Resource = LISTING) -> str:
    """Return why a column map cannot be opened."""
    with pytest.raises(SourceError) as refusal, open_source(write(folder, record, *rows, head=head, resource=resource)):
        pass
    return str(refusal.value)


def test_an_envelope_is_made_of_constants_and_columns(tmp_path: Path) -> None:
    head = HEAD + 'deleted = {column = "pool"}\nproperty_type_id = 2\nshared_partner_data_updated_at = "2026-05-06"\n'
    assert read(write(tmp_path, RECORD, ROW, head=head)) == [
        {
            "updated_at": "2026-01-02T00:00:00+00:00",
            "platform_company_id": "acme",
            "deleted": True,
            "property_type_id": 2,
            "shared_partner_data_updated_at": "2026-05-06T00:00:00+00:00",
            "record": {"PlatformListingId": "7"},
        }
    ]


def test_a_table_may_state_earlier_prices(tmp_path: Path) -> None:
    head = HEAD + '[history]\nPreviousListPrice = {column = "price"}\nPriceChangeTimestamp = {column = "changed"}\n'
    (found,) = read(write(tmp_path, RECORD, ROW, head=head))
    assert isinstance(found, dict)
    assert found["history"] == {"PreviousListPrice": 100, "PriceChangeTimestamp": "2026-01-02T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("record", "field", "reason"),
    [
        ('City = {column = "kind", map = {h = "House"}}', "City", "column kind: 'H' is not in the map"),
        ('OpenHouse = [{Date = {column = "no"}}]', "OpenHouse[0].Date", "column no: '5' is not an ISO 8601 date"),
    ],
)
def test_a_cell_that_does_not_fit_is_a_fault_of_its_row_that_names_field_and_column(
    tmp_path: Path, record: str, field: str, reason: str
) -> None:
    good, fault = read(write(tmp_path, f"{RECORD}\n{record}", "1,2026-01-02,,,,,,", ROW))
    assert isinstance(good, dict)
    assert isinstance(fault, RejectedLine)
    assert (fault.error.field, fault.error.reason) == (f"record.{field}", reason)
    assert fault.line[:3] == ("table.csv", 3, ROW.encode())
    assert fault.resource is LISTING


def test_a_field_may_be_a_table_of_its_own(tmp_path: Path) -> None:
    record = 'SharedPartnerData.attribute_1 = {column = "kind"}\n[[record.PropertyFeatures]]\nPropertyFeatureName = "K"'
    [envelope] = read(write(tmp_path, f"{RECORD}\n{record}", ROW))
    assert isinstance(envelope, dict)
    assert envelope["record"] == {
        "PlatformListingId": "7",
        "SharedPartnerData": {"attribute_1": "H"},
        "PropertyFeatures": [{"PropertyFeatureName": "K"}],
    }


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("7,2026-01-02", "has 2 cells, but the header has 8"),
        (f"{ROW},", "has 9 cells, but the header has 8"),
        ('7,2026-01-02,"1"0,,,,,', "is not a valid CSV row: ',' expected after '\"'"),
        ('7,2026-01-02,1,"cut', "is not a valid CSV row: unexpected end of data"),
    ],
)
def test_a_row_that_is_none_is_a_fault(tmp_path: Path, row: str, reason: str) -> None:
    rows = [ROW, "", row] if row.endswith("cut") else [ROW, "", row, ROW]
    items = read(write(tmp_path, RECORD, *rows))
    [fault] = [item for item in items if isinstance(item, RejectedLine)]
    assert len(items) == len(rows) - 1
    assert (fault.error.field, fault.error.reason) == ("", reason)
    assert (fault.line.number, fault.line.data.strip()) == (4, row.encode())


def test_invalid_utf_8_spoils_its_row_alone_and_is_kept(tmp_path: Path) -> None:
    name = write(tmp_path, f'{RECORD}\nCity = {{column = "street"}}')
    rows = [b"\xef\xbb\xbf" + COLUMNS.encode(), b"1,2026-01-02,,\xff,,,,", "2,2026-01-02,,Zürich,,,,".encode()]
    (tmp_path / "table.csv").write_bytes(b"\r\n".join(rows))
    fault, good = read(name)
    assert isinstance(fault, RejectedLine)
    assert (fault.error.reason, fault.line.data) == ("is not valid UTF-8", rows[1] + b"\r\n")
    assert isinstance(good, dict)
    assert good["record"] == {"PlatformListingId": "2", "City": "Zürich"}


def test_a_cell_may_have_several_lines_and_a_row_is_found_at_its_first(tmp_path: Path) -> None:
    record = f'{RECORD}\nPublicRemarks = {{column = "street"}}\nListPrice = {{column = "price"}}'
    good, fault = read(write(tmp_path, record, '1,2026-01-02,,"a\nb",,,,', '2,2026-01-02,x,"c\nd",,,,'))
    assert isinstance(good, dict)
    assert good["record"]["PublicRemarks"] == "a\nb"
    assert isinstance(fault, RejectedLine)
    assert fault.line.number == 4


def test_a_quotation_mark_that_swallows_rows_ends_the_reading(tmp_path: Path) -> None:
    name = write(tmp_path, RECORD, ROW, '8,2026-01-02,,"open,,,,', ROW, ROW)
    with pytest.raises(SourceError, match=r"table\.csv: a quotation mark opened in line 3 spans lines up to 5: "):
        read(name)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_table_may_be_compressed_and_a_cut_one_is_an_error(tmp_path: Path, suffix: str) -> None:
    name = write(tmp_path, RECORD)
    rows = "\n".join([COLUMNS, *(f"{n},2026-01-02,,,,,,{os.urandom(9).hex()}" for n in range(9000))]).encode()
    packed = PACKERS[suffix](rows)
    (tmp_path / "table.csv").write_bytes(packed)
    assert len(read(name)) == 9000
    (tmp_path / "table.csv").write_bytes(packed[:-30])
    with pytest.raises(SourceError, match=r"table\.csv cannot be read after line \d{3,}: it ends inside"):
        read(name)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (
            "ListPrise = 1",
            "map.toml is not a valid column map: Object contains unknown field `ListPrise` - at `$.record`.",
        ),
        (
            'ListPrice = {colum = "price"}',
            "map.toml is not a valid column map: Object contains unknown field `colum` - at `$.record.ListPrice`.",
        ),
        ('ListPrice = "1"', "Expected `int | float | object | null`, got `str` - at `$.record.ListPrice`."),
        ("City = {}", "Give one of `column`, `template`, `join`, `uuid5` - at `$.record.City`."),
        (
            'City = {column = "a", template = "{b}"}',
            "Give one of `column`, `template`, `join`, `uuid5` - at `$.record.City`.",
        ),
        ('City = {template = "b"}', "The template has no column: write {column name} - at `$.record.City`."),
        ('City = {column = "no", default = "x"}', "`default` is for texts that are not in `map`: add a `map` - at"),
        ('City = {column = "day", format = "%Y"}', "unknown field `format` - at `$.record.City`."),
        ('ListPrice = {column = "no", type = "string"}', "unknown field `type` - at `$.record.ListPrice`."),
        ('Address2 = {column = "no", type = "date"}', "Invalid enum value 'date' - at `$.record.Address2.type`."),
        ('ListingImages = [{URL = "x"}]', "unknown field `URL` - at `$.record.ListingImages[0]`."),
        ('City = {column = "town"}', f"map.toml: record.City: table.csv has no column 'town' among: {LISTED}."),
        ('City = {template = "{no} {town}"}', "map.toml: record.City: table.csv has no column 'town' among: "),
        ('CreatedDate = "soon"', "map.toml: record.CreatedDate is 'soon', which is not an ISO 8601 date."),
        ("City = ", "map.toml is not valid TOML: Invalid value (at line "),
    ],
)
def test_a_wrong_column_map_is_refused_with_its_name_and_key(tmp_path: Path, record: str, said: str) -> None:
    assert said in refused(tmp_path, f"{RECORD}\n{record}")


@pytest.mark.parametrize(
    ("head", "resource", "said"),
    [
        ('file = "table.csv"\nplatform_company_id = "a"\n', LISTING, "missing required field `updated_at`"),
        (HEAD.replace("table", "none"), LISTING, "map.toml: file is 'none.csv', but "),
        (HEAD + "parent_company_id = 'x'\n", LISTING, "unknown field `parent_company_id`"),
        ('file = "table.csv"\nupdated_at = {column = "day"}\n', LISTING, "map.toml: platform_company_id is missing"),
        (HEAD, OFFICE, "unknown field `PlatformListingId`"),
    ],
)
def test_members_above_the_record_are_checked_too(tmp_path: Path, head: str, resource: Resource, said: str) -> None:
    assert said in refused(tmp_path, RECORD, head=head, resource=resource)


def test_the_identifier_is_required(tmp_path: Path) -> None:
    assert "missing required field `PlatformListingId` - at `$.record`" in refused(tmp_path, "")


def test_an_unknown_resource_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text('resource = "houses"', encoding="utf-8")
    aliases = ", ".join(resource.alias for resource in RESOURCES)
    with (
        pytest.raises(SourceError, match=rf"^map\.toml: resource is 'houses': use one of {aliases}\.$"),
        open_source(str(tmp_path / "map.toml")),
    ):
        pass


def test_a_table_without_a_header_or_with_a_column_twice_is_refused(tmp_path: Path) -> None:
    name = write(tmp_path, RECORD)
    for text, said in (
        ("", "has no header: its first line is empty"),
        ("id,id,changed", "2 columns 'id'.*Write 'id \\(1\\)'"),
    ):
        (tmp_path / "table.csv").write_text(text, encoding="utf-8")
        with pytest.raises(SourceError, match=said), open_source(name):
            pass


def test_a_company_may_be_in_the_column_map(tmp_path: Path) -> None:
    head = HEAD.replace('platform_company_id = "acme"\n', "") + '[company]\nplatform_company_id = "own"\nname = "Own"\n'
    name = write(tmp_path, RECORD, ROW, head=head)
    os.utime(name, ns=(0, 1_500_000_000_123_456_000))
    with open_source(name) as source:
        assert [resource for resource in RESOURCES if source.has(resource)] == [COMPANY, LISTING]
        assert source.taken_at(COMPANY) == 1_500_000_000_123_456 < source.taken_at(LISTING)
        assert source.identity(COMPANY) != source.identity(LISTING)
        with source.changes() as feed:
            items = [item for item in feed.lines if not isinstance(item, RejectedLine)]
            assert feed.position() == feed.total
    assert [(resource, line.file, line.number) for resource, line in items] == [
        (COMPANY, "map.toml", 1),
        (LISTING, "table.csv", 2),
    ]
    company, listing = (orjson.loads(line.data) for _, line in items)
    assert company["updated_at"] == "2017-07-14T02:40:00.123456Z"
    assert listing["platform_company_id"] == "own"
    assert parse_line(COMPANY, company).company == "own"


def test_rows_may_be_companies_but_then_no_other_company(tmp_path: Path) -> None:
    record = 'platform_company_id = {column = "id"}'
    head = 'file = "table.csv"\nupdated_at = {column = "changed"}\nparent_company_id = {column = "kind"}\n'
    [envelope] = read(write(tmp_path, record, ROW, head=head, resource=COMPANY), COMPANY)
    assert isinstance(envelope, dict)
    assert (envelope["parent_company_id"], envelope["record"]) == ("H", {"platform_company_id": "7"})
    twice = head + '[company]\nplatform_company_id = "own"\n'
    assert "the rows are companies: remove [company]" in refused(tmp_path, record, head=twice, resource=COMPANY)


def test_the_identity_follows_the_column_map_and_the_table(tmp_path: Path) -> None:
    name = write(tmp_path, RECORD, ROW)
    found = []
    for changed in (None, "map.toml", "table.csv"):
        if changed:
            os.utime(tmp_path / changed, ns=(0, 1))
        with open_source(name) as source:
            found.append(source.identity(LISTING))
    assert len(set(found)) == 3


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.alias)
def test_every_member_of_an_envelope_can_be_declared(resource: Resource) -> None:
    names = {field.name for field in envelope_fields(resource)}
    assert names == {"updated_at", "platform_company_id", "deleted"} | resource.envelope_members
