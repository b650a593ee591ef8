"""Column maps: what they declare, what cells become, and which rows and files are refused with which words."""

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from indexer import RejectedLine, SourceError, open_source
from indexer.source.tables.column_map import envelope_fields
from mappings import COMPANY, LISTING, OFFICE, RESOURCES, Resource
from tests.indexer.parsed_lines import parse_line

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


def one(folder: Path, record: str, row: str = ROW) -> Any:
    [envelope] = read(write(folder, f"{RECORD}\n{record}", row))
    assert isinstance(envelope, dict)
    accepted = {**envelope, "record": {"Status": "Active", **envelope["record"]}}
    parse_line(LISTING, accepted)
    return {name: value for name, value in envelope["record"].items() if name != "PlatformListingId"}


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


@pytest.mark.parametrize(
    ("record", "made"),
    [
        ('City = "Rye"', {"City": "Rye"}),
        ('City = {column = "street"}', {"City": "Elm"}),
        ('Address = {template = "{no} {street} St"}', {"Address": "5 Elm St"}),
        ('Address = {template = "{street}{no}"}', {"Address": "Elm5"}),
        ('ListPrice = {column = "price"}', {"ListPrice": 100}),
        ("ListPrice = 9", {"ListPrice": 9}),
        ('PoolYN = {column = "pool"}', {"PoolYN": True}),
        ("PoolYN = false", {"PoolYN": False}),
        ('CreatedDate = {column = "changed"}', {"CreatedDate": "2026-01-02"}),
        ('CreatedDate = {column = "day", format = "%d.%m.%Y"}', {"CreatedDate": "2026-02-03"}),
        ('ModificationTimestamp = "2026-01-02T03:04+02:00"', {"ModificationTimestamp": "2026-01-02T03:04:00+02:00"}),
        ('PropertyType = {column = "kind", map = {H = "Condo"}}', {"PropertyType": "Condo"}),
        ('PoolYN = {column = "kind", map = {X = true}, default = false}', {"PoolYN": False}),
        ('Address2 = {column = "no"}', {"Address2": "5"}),
        ('Address2 = {column = "no", type = "integer"}', {"Address2": 5}),
        ('Address2 = {column = "pool", type = "boolean"}', {"Address2": True}),
        ('SharedPartnerData.attribute_1 = {column = "kind"}', {"SharedPartnerData": {"attribute_1": "H"}}),
        (
            'ListingImages = [{FullURL = {template = "/{id}.jpg"}, IsMainListingImage = true}]',
            {"ListingImages": [{"FullURL": "/7.jpg", "IsMainListingImage": True}]},
        ),
        (
            "[[record.PropertyFeatures]]\n"
            'PropertyFeatureName = "Kind"\nPropertyFeatureValues = ["a", {column = "kind"}]',
            {"PropertyFeatures": [{"PropertyFeatureName": "Kind", "PropertyFeatureValues": ["a", "H"]}]},
        ),
    ],
)
def test_a_value_has_the_type_that_the_field_is_declared_with(
    tmp_path: Path, record: str, made: dict[str, object]
) -> None:
    assert one(tmp_path, record) == made


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1", 1),
        (" -3 ", -3),
        ("2.5", 2.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("", None),
        ("   ", None),
        ("1,000", """is not a number: if ',' groups digits, set thousands = ",\""""),
        ("$5", """is not a number: if $ is a currency or unit, set currency = "$\""""),
        ("٣", "is not a number"),
        ("1_000", "is not a number"),
        ("nan", "is not a number"),
        ("1e999", "is out of range"),
        ("9" * 400, "is out of range"),
    ],
)
def test_numbers(tmp_path: Path, cell: str, value: object) -> None:
    [item] = read(write(tmp_path, f'{RECORD}\nListPrice = {{column = "price"}}', f'7,2026-01-02,"{cell}",,,,,'))
    if isinstance(item, RejectedLine):
        assert item.error.field == "record.ListPrice"
        assert item.error.reason == f"column price: {cell!r} {value}"
    else:
        assert item["record"].get("ListPrice") == value


@pytest.mark.parametrize(
    ("record", "field", "reason"),
    [
        (
            'PoolYN = {column = "kind"}',
            "PoolYN",
            "column kind: 'H' is not one of true, false, yes, no, y, n, 1, 0: use a `map` for other texts",
        ),
        ('CreatedDate = {column = "day"}', "CreatedDate", "column day: '03.02.2026' is not an ISO 8601 date"),
        (
            'CreatedDate = {column = "day", format = "%Y"}',
            "CreatedDate",
            "column day: '03.02.2026' does not match the format %Y",
        ),
        ('City = {column = "kind", map = {h = "House"}}', "City", "column kind: 'H' is not in the map"),
        ('ListPrice = {template = "{street}{no}"}', "ListPrice", "column street and column no: 'Elm5' is not a number"),
        ('OpenHouse = [{Date = {column = "no"}}]', "OpenHouse[0].Date", "column no: '5' is not an ISO 8601 date"),
    ],
)
def test_a_cell_that_does_not_fit_is_a_fault_that_names_the_column(
    tmp_path: Path, record: str, field: str, reason: str
) -> None:
    [good, fault] = read(write(tmp_path, f"{RECORD}\n{record}", "1,2026-01-02,,,,,,", ROW))
    assert isinstance(good, dict)
    assert isinstance(fault, RejectedLine)
    assert (fault.error.field, fault.error.reason) == (f"record.{field}", reason)
    assert fault.line[:3] == ("table.csv", 3, ROW.encode())
    assert fault.resource is LISTING


def test_empty_cells_and_objects_and_lists_of_them_are_absent(tmp_path: Path) -> None:
    record = """
        City = {column = "street"}
        Address = {template = "{no} {street}"}
        Community = {column = "kind", map = {H = "x"}, default = "y"}
        SharedPartnerData = {attribute_1 = {column = "kind"}, attribute_2 = "constant"}
        ListingImages = [{FullURL = {column = "kind"}, IsMainListingImage = true}, {FullURL = {column = "no"}}]
        PropertyFeatures = [{PropertyFeatureName = "Kind", PropertyFeatureValues = [{column = "kind"}]}]
        """
    assert one(tmp_path, record, "7,2026-01-02,, ,5,,,") == {"ListingImages": [{"FullURL": "5"}]}


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


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
def test_a_table_may_be_compressed_and_a_cut_one_is_an_error(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    name = write(tmp_path, RECORD)
    rows = "\n".join([COLUMNS, *(f"{n},2026-01-02,,,,,,{os.urandom(9).hex()}" for n in range(9000))]).encode()
    packed = pack(rows)
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
    for text, said in (("", "has no header: its first line is empty"), ("id,id,changed", "more than one column 'id'")):
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
