"""The API reference: complete for every operation, parameter and field, true to what is installed, and tried."""

import re
from typing import Any

import pytest
from marshmallow import ValidationError
from playwright.async_api import Browser, expect

from mappings import RESOURCES
from mappings.fields import Field
from service.capabilities import installed_capabilities
from service.openapi.document import document
from service.openapi.schemas import response_bodies
from service.resources import OPERATIONS
from service.site.pages import PAGE_BY_PATH, Site, SitePage
from service.site.reference import operation_pages, parameter_example
from service.site.rendering import page_text
from tests.site.conftest import RunningService
from tests.site.page_parser import SITE, parse_page
from tests.site.test_browser import Looks, looks, open_visit

_DOCUMENT = document(installed_capabilities())
_PAGES = operation_pages(SITE)
_ROW = re.compile(r"(?m)^\| (`.+?) \| (.*) \|$")
# What is an object of a name has a table of its own below.
_HAS_TABLE = re.compile(r"(?:array of )?\[(\w+)\]\(#\w+\)")
_OPENED = "?platform_company_id=acme"
every_page = pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
of_the_contract = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.path)


def _page(operation_id: str) -> SitePage:
    return next(page for page in _PAGES if page.name == f"reference/{operation_id.replace('_', '-')}")


def _rows(text: str, columns: int) -> list[list[str]]:
    rows = [re.split(r"(?<!\\) \| ", line[2:-2]) for line in text.splitlines() if line.startswith("| `")]
    return [row for row in rows if len(row) == columns]


def test_there_is_a_page_for_every_operation() -> None:
    described = [methods["get"] for methods in _DOCUMENT["paths"].values()]
    assert [page.title for page in _PAGES] == [operation["summary"] for operation in described]
    overview = parse_page("/docs/reference")
    assert {page.path for page in _PAGES} <= {*overview.addresses}


@every_page
def test_every_parameter_and_field_has_a_type_a_sentence_and_an_example(page: SitePage) -> None:
    rows = _rows(page.text, 4)
    # What is a document or empty has none.
    assert rows or page.name in {"reference/describe", "reference/live", "reference/started"}
    for name, kind, meaning, example in rows:
        assert kind, name
        assert meaning.endswith((".", ")")), (name, meaning)
        assert _HAS_TABLE.fullmatch(kind) or example.strip("` ") not in {"", "null", "[]"}, name
    headings = {*re.findall(r"(?m)^### (\w+)$", page.text)}
    assert {found[1] for row in rows if (found := _HAS_TABLE.fullmatch(row[1]))} <= headings


@of_the_contract
def test_the_fields_are_those_of_the_response_in_order(operation: Any) -> None:
    [page] = [page for page in _PAGES if f"`GET /v1{operation.path}`" in page.text]
    records = response_bodies(operation)[0].records
    table = page.text.partition(f"### {records.name}\n")[2].partition("\n### ")[0].partition("\n<details")[0]
    expected = [f"`{field.name}`" for field in records.resource.view(records.view)]
    assert [row[0] for row in _rows(table, 4)] == expected


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: str(resource.alias))
def test_every_declared_field_has_a_sentence(resource: Any) -> None:
    def lacking(fields: tuple[Field, ...]) -> list[str]:
        return [one.name for one in fields if not one.note.endswith(".")] + [
            name for one in fields for name in lacking(one.members)
        ]

    assert lacking(resource.fields) == []


@of_the_contract
def test_the_example_of_a_parameter_is_accepted(operation: Any) -> None:
    described = _DOCUMENT["paths"][operation.path]["get"]["parameters"]
    for parameter in described:
        if parameter["in"] == "query":
            field = operation.schema.fields[parameter["name"]]
            try:
                field.deserialize(parameter_example(parameter))
            except ValidationError as refused:
                pytest.fail(f"{parameter['name']}: {refused}")


@every_page
def test_errors_are_collapsed(page: SitePage) -> None:
    errors = page.text.partition("\n## Errors\n")[2]
    assert errors.lstrip().startswith('<details class="more">')
    assert re.search(r"(?m)^400, .*431", errors)


@pytest.mark.parametrize(
    ("without", "missing"),
    [("exports", "/exports"), ("changes", "/changes"), ("changes", "/digest"), ("openapi", "/listings")],
)
def test_what_is_off_is_absent(without: str, missing: str) -> None:
    assert any(missing in page.text for page in _PAGES)
    pages = operation_pages(Site.with_capabilities(installed_capabilities((without,))))
    assert not any(f"GET /v1{missing}" in page.text for page in pages)


def test_reso_has_a_reference_of_its_own() -> None:
    assert not any("/reso" in page.text for page in _PAGES)


@looks
async def test_a_request_is_sent_from_the_page(browser: Browser, served: RunningService, looks: Looks) -> None:
    async with open_visit(browser, served, looks) as visit:
        page = visit.page
        await visit.open(_page("list_listings").path)
        await page.get_by_role("button", name="Try it").click()
        await page.get_by_label("platform_company_id").fill("acme")
        assert await visit.findings() == []
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#try-said")).to_have_text("Enter your key at Key above.")
        await page.locator("#own-key").fill(served.key)
        await page.keyboard.press("Enter")
        await page.get_by_label("market_status").select_option("all")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#try-said")).to_contain_text("200")
        await expect(page.locator("#try pre")).to_contain_text('"PlatformListingId": "L1"')
        asked = f"{served.url}/v1/listings{_OPENED}&market_status=all"
        assert [url for url in visit.asked if "/v1/" in url] == [asked]
        await page.get_by_label("page_size").fill("0")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#try-said")).to_contain_text("400")
        await expect(page.locator("#try pre")).to_contain_text("page_size")
        assert await visit.findings() == []


async def test_a_request_with_an_identifier_in_its_path_and_one_without_a_key(
    browser: Browser, served: RunningService
) -> None:
    async with open_visit(browser, served, {}) as visit:
        page = visit.page
        await visit.open(_page("live").path)
        await page.get_by_role("button", name="Try it").click()
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#try pre")).to_contain_text('"ok"')
        await visit.open(f"{_page('show_listing').path}#key={served.key}")
        await page.get_by_role("button", name="Try it").click()
        await page.get_by_label("platform_listing_id").fill("L 1/2")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#try-said")).to_contain_text("/v1/listings/L%201%2F2")
        await page.get_by_label("platform_listing_id").fill("L1")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#try pre")).to_contain_text('"PlatformListingId": "L1"')


async def test_what_a_client_sends_never_becomes_markup(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, {}) as visit:
        page = visit.page
        await visit.open(f"{_page('show_listing').path}#key={served.key}")
        await page.get_by_role("button", name="Try it").click()
        await page.get_by_label("platform_company_id").fill("<img src=x onerror=alert(1)>")
        await page.get_by_role("button", name="Send").click()
        await expect(page.locator("#try-said")).to_contain_text("/v1/listings/")
        assert await page.locator("#try img").count() == 0


def test_without_the_reference_the_page_of_operations_has_their_parameters() -> None:
    pages = {page.name: page for page in PAGE_BY_PATH.values()}
    off = page_text(pages["parameters"], Site.with_capabilities(installed_capabilities(("openapi",))))
    rows = re.findall(r"(?m)^\| `(\w+)` \|", off.partition("## Parameters")[2])
    assert {*rows} == {name for operation in OPERATIONS for name in operation.schema.fields}
    assert "## Parameters" not in page_text(pages["parameters"], SITE)
