"""The inspection of a source: counts, kinds of faults, fields, identifiers and references."""

import tracemalloc
from pathlib import Path

import pytest

from indexer import open_source
from indexer.inspection import SourceCheck, check_source
from indexer.reporting.report import FaultExample
from mappings import AGENT, COMPANY, LISTING, SOLD_LISTING
from tests.indexer.source.tables.table_folder import HEAD, IDENTIFIER, LISTINGS, write_map
from tests.records import envelope, write

ANN, BOB, CYD = (f"{number}b9e6b1e-7f4e-4f9a-9c39-0d2f0c3a7a11" for number in range(3))


def checked(name: str) -> SourceCheck:
    with open_source(name) as source:
        return check_source(source)


@pytest.fixture
def listings(tmp_path: Path) -> str:
    (tmp_path / "agents.csv").write_text(f"agent_uuid\n{ANN}\n")
    rows = [
        f"1,100,Rye,{ANN}",
        f"2,$5,Rye,{BOB}",
        "3,many,Rye,",
        f"4,300,Bedford,{BOB}",
        "1,100,Rye,",
        "5,,,,",
        "6,1,,",
    ]
    (tmp_path / "listings.csv").write_text("\n".join(["id,price,city,agent", *rows]))
    return write_map(
        tmp_path,
        f"""{HEAD}
        agents = {{file = "agents.csv", pass_through = true}}
        [listings]
        file = "listings.csv"
        skip_if = {{id = "6"}}
        record.PlatformListingId = {{column = "id"}}
        record.ListPrice = {{column = "price"}}
        record.City = {{column = "city"}}
        record.Status = "Active"
        record.ListAgentUUID = {{column = "agent"}}
        """,
    )


def test_faults_are_counted_by_kind_with_examples(listings: str) -> None:
    found = checked(listings)
    assert (found.companies, found.bad) == (["acme"], 3)
    agents, check = found.resources
    assert (agents.lines, agents.bad) == (1, 0)
    assert (check.lines, check.bad, check.skipped) == (6, 3, 1)
    assert [(kind.field, kind.column, kind.reason, kind.count) for kind in check.faults] == [
        ("record.ListPrice", "price", '… is not a number: if $ is a currency or unit, set currency = "$"', 1),
        ("record.ListPrice", "price", "… is not a number", 1),
        ("", None, "has 5 cells, but the header has 4", 1),
    ]
    assert check.faults[0].examples == [FaultExample("listings.csv", 3, "$5")]


def test_fields_have_shares_ranges_and_values(listings: str) -> None:
    fields = {one.name: one for one in checked(listings).resources[1].fields}
    price, city = fields["ListPrice"], fields["City"]
    assert (price.filled, price.lowest, price.highest) == (3, 100, 300)
    assert (city.filled, city.lowest, city.highest, city.values) == (3, "Bedford", "Rye", {"Rye": 2, "Bedford": 1})
    assert fields["TaxYear"].filled == 0


def test_texts_are_compared_as_numbers_if_all_of_them_are(tmp_path: Path) -> None:
    rows = "id,Longitude,PostalCode\n1,-81.5,10580\n2,-9.25,9100 AB\n3,-100,10001\n"
    (tmp_path / "table.csv").write_text(rows)
    name = write_map(tmp_path, f'{LISTINGS}file = "table.csv"\npass_through = true\n{IDENTIFIER}Status = "Active"\n')
    fields = {one.name: one for one in checked(name).resources[0].fields}
    assert (fields["Longitude"].lowest, fields["Longitude"].highest) == ("-100", "-9.25")
    assert (fields["PostalCode"].lowest, fields["PostalCode"].highest) == ("10001", "9100 AB")


def test_identifiers_that_merge_and_references_that_dangle(listings: str) -> None:
    check = checked(listings).resources[1]
    assert check.merged is not None
    assert (check.merged.identifiers, check.merged.lines, check.merged.differing) == (1, 2, 1)
    assert check.merged.examples == ["1: 2 lines, such as listings.csv:2 and listings.csv:6"]
    agent, second, office = check.references
    assert (agent.field, agent.values, agent.is_checked, agent.dangling, agent.lines) == (
        "ListAgentUUID",
        2,
        True,
        1,
        1,
    )
    assert agent.examples == [f"{BOB}: 1 line, such as listings.csv:5"]
    assert (second.values, second.dangling) == (0, 0)
    assert (office.target, office.is_checked) == ("offices", False)


def test_any_source_can_be_checked(tmp_path: Path) -> None:
    folder = write(tmp_path, {COMPANY: [envelope(COMPANY)], LISTING: [envelope(LISTING), b"{"], AGENT: []})
    found = checked(str(folder))
    assert [(one.resource, one.lines, one.bad) for one in found.resources] == [
        ("companies", 1, 0),
        ("agents", 0, 0),
        ("listings", 2, 1),
    ]
    assert found.companies == []


def test_what_is_filled_and_what_stays_empty_is_counted_with_the_reason(tmp_path: Path) -> None:
    other = envelope(COMPANY, {"platform_company_id": "other", "numeric_id": "2"})
    agents = [
        envelope(AGENT, {"agent_uuid": ANN, "name": "Ann Lee"}),
        envelope(AGENT, {"agent_uuid": BOB, "name": None, "first_name": "Bob", "last_name": None}),
    ]
    unknown = "no such record in agents of the source; a load also looks at the live ones"
    given = [(ANN, "acme"), (ANN, "acme"), (ANN, "other"), (BOB, "acme"), (None, "acme"), (CYD, "acme")]
    lines = [
        envelope(
            LISTING,
            {"PlatformListingId": f"l{at}", "ListAgentFullName": None, "ListAgentUUID": agent, "DaysOnMarket": None},
            platform_company_id=company,
        )
        for at, (agent, company) in enumerate(given)
    ]
    sales = [
        envelope(SOLD_LISTING, {"PlatformListingId": f"s{at}", "DaysOnMarket": days, "SoldDate": sold})
        for at, (days, sold) in enumerate([(None, "2026-01-09"), (7, "2026-01-09"), (None, None)])
    ]
    companies = [envelope(COMPANY), other]
    folder = write(tmp_path, {COMPANY: companies, AGENT: agents, LISTING: lines, SOLD_LISTING: sales})
    of_listings, of_sales = checked(str(folder)).resources[2:]
    name, days = of_listings.fills
    assert (name.field, name.filled) == ("ListAgentFullName", 2)
    assert name.empty == {
        "ListAgentUUID is empty as well": 1,
        unknown: 1,
        "another company has the record in agents": 1,
        "the record in agents has no name": 1,
    }
    assert (days.filled, days.empty) == (0, {"it changes each day while a listing is on the market": 6})
    (days,) = of_sales.fills
    assert (days.filled, days.empty) == (1, {"one of the dates is missing, or they are in the wrong order": 1})


def test_the_memory_of_a_check_does_not_grow_with_the_source(tmp_path: Path) -> None:
    fields = 'ListPrice = {column = "price"}\nCity = {column = "city"}\n'
    name = write_map(tmp_path, f'{LISTINGS}file = "table.csv"\n{IDENTIFIER}{fields}')

    def peak_of(bad: int) -> int:
        rows = "".join(f"{number},x{number},Rye {number}\n" for number in range(bad))
        (tmp_path / "table.csv").write_text(f"id,price,city\n{rows}")
        tracemalloc.start()
        try:
            found = checked(name)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (found.bad, len(found.resources[0].faults)) == (bad, 2)
        return peak

    first = peak_of(1_000)
    assert peak_of(4_000) - first < 3_000 * 300  # bytes a row
