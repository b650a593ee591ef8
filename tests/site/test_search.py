"""What newcomers search for, and the page that comes first or second, in a real Chromium."""

from playwright.async_api import Browser, expect

from tests.site.conftest import RunningService
from tests.site.test_browser import WIDE, open_visit

# By query: the pages that answer it.
_QUERIES = {
    "pagination": "walk",
    "next page": "walk",
    "cursor": "walk glossary",
    "page size": "walk parameters limits",
    "how do i get all listings": "walk copy",
    "authentication": "keys",
    "authorization header": "keys",
    "api key": "keys",
    "basic auth": "move keys",
    "csv": "copy everything choose",
    "export to excel": "programs choose everything",
    "postgres": "databases",
    "download all listings into postgres": "databases",
    "mysql": "databases",
    "sqlite database": "copy",
    "download database": "copy",
    "bulk download": "everything",
    "parquet": "everything copy",
    "webhook": "changes choose",
    "push notifications": "choose changes",
    "incremental": "changes walk",
    "incremental updates": "changes walk",
    "deleted listings": "changes walk",
    "delete": "changes walk",
    "tombstone": "changes glossary",
    "sold": "parameters fields",
    "status": "fields parameters",
    "photo order": "fields reso parameters",
    "images": "fields parameters",
    "time zone": "timestamps",
    "last modified": "timestamps fields",
    "rate limit": "limits",
    "too many requests": "limits problems",
    "429": "limits problems errors",
    "retry": "errors",
    "timeout": "errors limits",
    "gzip": "transfer",
    "etag": "transfer",
    "typescript": "clients",
    "python client": "clients copy",
    "swagger": "reference",
    "curl example": "start",
    "quickstart": "start",
    "release notes": "changelog",
    "open house": "fields reso",
    "odata": "reso programs",
    "power bi": "programs",
    "authentification": "keys",
    "paginaton": "walk",
}


async def test_each_finds_its_page_first_or_second(browser: Browser, served: RunningService) -> None:
    missed = {}
    async with open_visit(browser, served, WIDE) as visit:
        page = visit.page
        await visit.open("/docs")
        await page.locator("#search-button").click()
        for query, pages in _QUERIES.items():
            await page.locator("#search-words").fill(query)
            await expect(page.locator("#search-said")).to_contain_text("found")
            await expect(page.locator("#search-results")).to_have_attribute("data-words", query)
            links = await page.locator("#search-results a").evaluate_all("links => links.map(link => link.pathname)")
            first = [path.removeprefix("/docs").lstrip("/") or "start" for path in links[:2]]
            if not {*first} & {*pages.split()}:
                missed[query] = first
        assert missed == {}
