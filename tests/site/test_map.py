"""The map of listings in a real Chromium, with the service and a real engine: drawing, list and requests."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.async_api import Browser, Page, Request, expect

from sample import write_source
from service.keys.store import KeyGrant
from tests.contract.conftest import open_world
from tests.contract.world import World
from tests.site.test_browser import MAP, NARROW, WIDE, BrowserVisit, Looks, looks, open_visit
from tests.waiting import until_true

_LISTINGS = 1_300  # of which one company has more than a page
_COMPANY = "summit-crest"
_GRANTS = {
    "all": KeyGrant("all", all_companies=True, rate=None),
    "one": KeyGrant("one", companies=("orchard-street",), rate=None),
}
# How many different colours lie on the plane, and what is in its middle.
_COLOURS = """() => {
    const canvas = document.getElementById("plane-canvas");
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return {all: new Set(new Uint32Array(data.buffer)).size, ground: [...data.slice(0, 3)]};
}"""
# Whether there is a pixel of the colour of borders.
_HAS_BORDERS = """() => {
    const canvas = document.getElementById("plane-canvas");
    const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const [red, green, blue] = [0x9f, 0xb3, 0xab];
    for (let at = 0; at < data.length; at += 4)
        if (Math.abs(data[at] - red) + Math.abs(data[at + 1] - green) + Math.abs(data[at + 2] - blue) < 12) return true;
    return false;
}"""
_SHOWN = "document.getElementById('plane-canvas').toDataURL()"


@dataclass(frozen=True)
class MapService:
    """The running service, what is in it, and keys of it."""

    world: World
    keys: dict[str, str]

    @property
    def url(self) -> str:
        """Its origin."""
        return str(self.world.http.make_url("/")).rstrip("/")

    def count(self, *statuses: str) -> int:
        """Return how many listings of the company have one of these statuses; any where none is given."""
        of = self.world.of("listings", _COMPANY)
        return sum(not statuses or each["record"]["Status"] in statuses for each in of)


@pytest.fixture(scope="module")
async def mapped(engine_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MapService]:
    """Generated listings behind the real service."""
    source = tmp_path_factory.mktemp("source") / "sample"
    write_source(source, _LISTINGS)
    async with open_world(engine_url, source, _GRANTS) as world:
        yield MapService(world, world.keys)


async def _show(visit: BrowserVisit, key: str, company: str = _COMPANY, feed: str = "all") -> None:
    """Ask for listings by the keyboard."""
    await visit.page.locator("#key").fill(key)
    await visit.page.locator("#key").blur()
    if company:
        await visit.page.locator("#company").select_option(company)
    await visit.page.locator("#feed").select_option(feed)
    await visit.page.get_by_role("button", name="Show", exact=True).click()


async def _shown(page: Page) -> int:
    """Return how many listings are on the map, once all of them are."""
    await expect(page.locator("#said")).to_contain_text("on the map")
    return int((await page.locator("#said").inner_text()).split()[0].replace(",", ""))


def _first(page: Page) -> Any:
    return page.locator("#listings button").first


@looks
async def test_listings_are_drawn_and_listed(browser: Browser, mapped: MapService, looks: Looks) -> None:
    async with open_visit(browser, mapped, looks) as visit:  # type: ignore[arg-type]
        requests: list[Request] = []
        visit.page.on("request", lambda request: requests.append(request))  # noqa: PLW0108 - a method takes no marks
        await visit.open(MAP)
        await expect(visit.page.locator("#said")).to_contain_text("generated listings")
        await expect(visit.page.locator("#listings button")).to_have_count(100)
        assert not any("/v1/" in url for url in visit.asked)
        empty = await visit.page.evaluate(_SHOWN)
        await _show(visit, mapped.keys["all"])
        assert await _shown(visit.page) == mapped.count() > 500
        asked = [request for request in requests if "/v1/listings?" in request.url]
        assert len(asked) == -(-mapped.count() // 500) > 1
        assert {(await request.all_headers())["accept"] for request in asked} == {"application/geo+json"}
        assert not any(mapped.keys["all"] in url for url in visit.asked)
        await expect(visit.page.locator("#counted")).to_contain_text(f"{mapped.count():,} listings in view")
        assert await visit.page.locator("#listings li").count() == 100
        assert await visit.page.evaluate(_SHOWN) != empty
        drawn = await visit.page.evaluate(_COLOURS)
        assert drawn["all"] > 50
        assert (sum(drawn["ground"]) > 600) is (looks["color_scheme"] == "light")
        await _first(visit.page).click()
        await expect(visit.page.locator("#detail")).to_be_visible()
        assert await visit.findings() == []
        assert await visit.page.evaluate("document.documentElement.scrollWidth") <= looks["viewport"]["width"]
        assert visit.is_clean()
        kept = "[localStorage.length, sessionStorage.length, document.cookie.length]"
        assert await visit.page.evaluate(kept) == [0, 0, 0]


async def test_borders_lie_under_the_listings(browser: Browser, mapped: MapService) -> None:
    async with open_visit(browser, mapped, WIDE) as visit:  # type: ignore[arg-type]
        await visit.open(MAP)
        await until_true(lambda: visit.page.evaluate(_HAS_BORDERS))
        assert any("county_borders" in url for url in visit.asked)


async def test_the_keyboard_does_all_that_the_mouse_does(browser: Browser, mapped: MapService) -> None:
    async with open_visit(browser, mapped, WIDE | {"reduced_motion": "reduce"}) as visit:  # type: ignore[arg-type]
        page, counted = visit.page, visit.page.locator("#counted")
        await visit.open(MAP)
        await _show(visit, mapped.keys["all"])
        whole = await _shown(page)
        await page.locator("#plane-canvas").focus()
        for key in ("+", "+", "ArrowLeft", "ArrowUp"):
            await page.keyboard.press(key)
        await expect(counted).not_to_contain_text(f"{whole:,} listings")
        await page.keyboard.press("0")
        await expect(counted).to_contain_text(f"{whole:,} listings")
        await _first(page).focus()
        price = await _first(page).locator("b").inner_text()
        before = await page.evaluate(_SHOWN)
        await page.keyboard.press("Enter")
        await expect(page.locator("#detail-title")).to_have_text(price)
        await until_true(lambda: page.evaluate(f"before => {_SHOWN} !== before", before))
        await expect(page.locator("#listings [aria-current=true] b")).to_have_text(price)
        await page.locator("#close").focus()
        await page.keyboard.press("Escape")
        await expect(page.locator("#detail")).to_be_hidden()
        await expect(page.locator("#plane-canvas")).to_be_focused()


async def test_a_mark_is_opened_and_a_listing_chosen_by_the_mouse(browser: Browser, mapped: MapService) -> None:
    async with open_visit(browser, mapped, WIDE | {"reduced_motion": "reduce"}) as visit:  # type: ignore[arg-type]
        page = visit.page
        await visit.open(MAP)
        await _show(visit, mapped.keys["all"])
        await _shown(page)
        # A chosen listing is moved into the middle, where the mouse finds it again.
        await _first(page).click()
        identifier = await _first(page).get_attribute("data-listing")
        await page.locator("#close").click()
        await page.locator("#plane-canvas").click()
        chosen = page.locator("#detail-facts dd").last
        await expect(page.locator("#detail")).to_be_visible()
        assert identifier
        await page.get_by_role("button", name="Whole feature").click()
        await expect(page.locator("#feature")).to_contain_text('"type": "Feature"')
        await expect(page.locator("#feature")).to_contain_text(await chosen.inner_text())
        # Drawn aside, it is no longer in view.
        box = await page.locator("#plane-canvas").bounding_box()
        assert box is not None
        x, y = box["x"] + 60, box["y"] + 200
        count = await page.locator("#counted").inner_text()
        await page.mouse.move(x, y)
        await page.mouse.wheel(0, -600)
        await expect(page.locator("#counted")).not_to_have_text(count)
        await page.mouse.wheel(0, 4_000)
        await page.mouse.down()
        await page.mouse.move(x + 400, y, steps=4)
        await page.mouse.up()
        assert visit.is_clean()


async def test_a_status_is_left_out_and_taken_in_again(browser: Browser, mapped: MapService) -> None:
    async with open_visit(browser, mapped, NARROW) as visit:  # type: ignore[arg-type]
        page, counted = visit.page, visit.page.locator("#counted")
        await visit.open(MAP)
        await _show(visit, mapped.keys["all"])
        whole = await _shown(page)
        active = page.get_by_role("button", name="Active", exact=False).first
        await expect(active).to_contain_text(f"{mapped.count('Active'):,}")
        await active.focus()
        await page.keyboard.press("Enter")
        await expect(active).to_have_attribute("aria-pressed", "false")
        await expect(active).to_be_focused()
        await expect(counted).to_contain_text(f"{whole - mapped.count('Active'):,} listings")
        await expect(page.locator("#listings .active")).to_have_count(0)
        assert await visit.findings() == []
        await page.keyboard.press("Enter")
        await expect(counted).to_contain_text(f"{whole:,} listings")


async def test_the_company_is_chosen_from_those_of_the_key(browser: Browser, mapped: MapService) -> None:
    async with open_visit(browser, mapped, WIDE) as visit:  # type: ignore[arg-type]
        await visit.open(f"{MAP}#key={mapped.keys['all']}")
        options = visit.page.locator("#company option")
        await expect(options).to_have_count(len(mapped.world.source["companies"]))
        await visit.page.get_by_role("button", name="Show", exact=True).click()
        await expect(visit.page.locator("#said")).to_contain_text("on the map")
        await _show(visit, mapped.keys["one"], company="", feed="sold")
        await expect(options).to_have_count(1)
        assert await _shown(visit.page) == len(mapped.world.of("sold_listings", "orchard-street")) > 0
        await expect(visit.page.locator("#company")).to_have_value("orchard-street")
        assert visit.is_clean()


async def test_an_error_shows_the_message_of_the_service(browser: Browser, mapped: MapService) -> None:
    async with open_visit(browser, mapped, WIDE) as visit:  # type: ignore[arg-type]
        await visit.open(MAP)
        await visit.page.locator("#key").fill("bk_nobody")
        await visit.page.locator("#key").press("Enter")
        await expect(visit.page.locator("#said.wrong")).to_contain_text("key")
        await expect(visit.page.locator("#stop")).to_be_hidden()
