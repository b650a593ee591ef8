"""Markup in records, companies and messages is shown as text in a real Chromium, and runs nothing."""

from typing import Any
from urllib.parse import quote

import orjson
import pytest
from playwright.async_api import Browser, Route, expect

from tests.site.conftest import RunningService
from tests.site.test_browser import WIDE, open_visit

MARKUP = "<img src=x onerror=\"document.title='stolen'\"><script>document.title='stolen'</script>\"'>&amp;"
_ELEMENTS = "document.querySelectorAll('main img, main script, main iframe, main [onerror]').length"


def _feature(number: int) -> dict[str, Any]:
    names = ("PlatformListingId", "Status", "Address", "City", "StreetName", "PublicRemarks", "ListAgentFullName")
    return {
        "type": "Feature",
        "id": f"{number}{MARKUP}",
        "geometry": {"type": "Point", "coordinates": [-122.3 + number / 100, 47.6]},
        "properties": {**dict.fromkeys(names, MARKUP), "ListPrice": 1, "Beds": MARKUP, "PropertyType": 1},
    }


async def _answer(route: Route) -> None:
    body: Any = {"FinalPage": True, "type": "FeatureCollection", "features": [_feature(number) for number in range(3)]}
    if "/companies" in route.request.url:
        body = [{"name": MARKUP, "platform_company_id": MARKUP}]
    await route.fulfill(status=200, body=orjson.dumps(body), content_type="application/geo+json")


async def test_the_map_shows_markup_as_text(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, WIDE) as visit:
        await visit.page.route("**/v1/**", _answer)
        await visit.open("/docs/map")
        await visit.page.locator("#key").fill("a key")
        await visit.page.locator("#key").press("Enter")
        await expect(visit.page.locator("#said")).to_contain_text("on the map")
        await visit.page.locator("#listings button").first.click()
        await expect(visit.page.locator("#detail")).to_contain_text("<img src=x onerror=")
        assert await visit.page.evaluate(_ELEMENTS) == 0
        assert "stolen" not in await visit.page.title()
        assert visit.complaints == []


async def test_the_map_shows_a_problem_with_markup_as_text(browser: Browser, served: RunningService) -> None:
    async def refuse(route: Route) -> None:
        problem = {"code": MARKUP, "title": MARKUP, "detail": MARKUP, "messages": [MARKUP]}
        await route.fulfill(status=403, body=orjson.dumps(problem), content_type="application/problem+json")

    async with open_visit(browser, served, WIDE) as visit:
        await visit.page.route("**/v1/**", refuse)
        await visit.open("/docs/map")
        await visit.page.locator("#key").fill("a key")
        await visit.page.locator("#key").press("Enter")
        await expect(visit.page.locator("#said")).to_contain_text("<img src=x onerror=")
        assert await visit.page.evaluate(_ELEMENTS) == 0
        assert "stolen" not in await visit.page.title()


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/docs/{}", "text/html"),
        ("/v1/{}", "application/problem+json"),
        ("/v1/companies?{}=1", "application/problem+json"),
        ("/v1/reso/Property?$filter={}", "application/json"),
        ("/{}", "application/problem+json"),
    ],
)
async def test_errors_show_markup_of_the_address_as_text(
    browser: Browser, served: RunningService, path: str, media_type: str
) -> None:
    async with open_visit(browser, served, WIDE) as visit:
        response = await visit.page.goto(served.url.rstrip("/") + path.format(quote(MARKUP, safe="")))
        assert response is not None
        assert response.status >= 400
        assert response.headers["content-type"].partition(";")[0] == media_type
        assert response.headers["x-content-type-options"] == "nosniff"
        # A page of the documentation has elements of its own outside of its content.
        elements = "(document.querySelector('main') ?? document).querySelectorAll('img, script, iframe, [onerror]')"
        assert await visit.page.evaluate(f"{elements}.length") == 0
        assert "stolen" not in await visit.page.title()
