"""The console in a real Chromium."""

import re

import pytest
from playwright.async_api import Browser, Page, expect

from service.console.consumers import STUCK_AFTER_REPEATS
from tests.console.conftest import BUILD, LAST
from tests.console.console_service import FEED, ConsoleService
from tests.service.stand_in import StandIn, refusal
from tests.site.test_browser import CUT, NARROW, WIDE, Looks, open_visit
from tests.site.test_stored_markup import MARKUP

_ONE = f"{FEED}&page_size=1"
# The columns of the groups of figures, and the pixels that they take.
_GROUPS = """(groups => [getComputedStyle(groups).gridTemplateColumns.split(" ").length, groups.clientWidth])(
    document.getElementById("groups"))"""


@pytest.mark.parametrize("looks", [WIDE, NARROW], ids=["wide-light", "narrow-dark"])
async def test_the_page_is_sound_and_says_that_all_is_well(
    browser: Browser, operating: ConsoleService, key: str, looks: Looks
) -> None:
    await operating.get(FEED, key)
    async with open_visit(browser, operating, looks) as visit:
        await visit.open("/console")
        await expect(visit.page.get_by_role("heading", level=1)).to_have_text("✓ All is well.")
        await expect(visit.page.locator("#resources tr").filter(has_text="v0000")).to_contain_text("17")
        await expect(visit.page.locator("#consumers")).to_contain_text("North portal")
        await _check_charts(visit.page)
        assert await visit.page.locator("#groups h3").all_inner_texts() == ["Traffic", "Speed", "Capacity", "Cluster"]
        columns, width = await visit.page.evaluate(_GROUPS)
        assert columns == (4 if looks is WIDE else 1)
        assert await visit.page.locator("#content thead th:not([title])").count() == 0
        assert width > 0.8 * looks["viewport"]["width"]
        assert await visit.page.evaluate("document.documentElement.scrollWidth") <= looks["viewport"]["width"]
        assert await visit.findings() == []
        assert visit.is_clean()


async def _check_charts(page: Page) -> None:
    """The charts have axes, and name the time and the value under the pointer."""
    charts = page.locator("#charts figure")
    await expect(charts.locator("[role=img] canvas")).to_have_count(3)
    assert await page.locator("#charts .u-axis").count() == 6
    caption = charts.first.locator("figcaption")
    await expect(caption).to_contain_text("max ")
    await charts.first.locator(".u-over").hover()
    await expect(caption).to_contain_text(re.compile(r"\d\d:\d\d:\d\d UTC: [\d.]+/s, failed [\d.]+/s"))


async def test_it_describes_what_is_wrong_and_that_it_has_passed(
    browser: Browser, operating: ConsoleService, stand_in: StandIn, key: str
) -> None:
    async with open_visit(browser, operating, NARROW) as visit:
        await visit.open("/console")
        for _ in range(STUCK_AFTER_REPEATS):
            await operating.get(_ONE, key)
        heading, notices = visit.page.get_by_role("heading", level=1), visit.page.locator("#notices")
        await expect(heading).to_have_text("! 1 warning.")
        await expect(notices).to_contain_text(
            "Warning: North portal (pages, listings) requested the same page 5 times in a row"
        )
        assert await visit.findings() == []
        stand_in.is_away(refusal(503, "away"))
        await expect(heading).to_have_text("✕ 1 problem.")
        await expect(notices).to_contain_text("Error: elasticsearch: it is unreachable.")
        await expect(visit.page.locator("#verdict")).to_have_class("wrong")
        assert await visit.findings() == []
        stand_in.replies.clear()
        stand_in.strange.clear()
        await operating.get(FEED, key)
        await expect(heading).to_have_text("✓ All is well.")
        assert visit.is_clean()


async def test_the_keyboard_reaches_everything_and_stays_where_it_is(
    browser: Browser, operating: ConsoleService
) -> None:
    # Wide first: what does not overflow has the focus only if the page says so.
    async with open_visit(browser, operating, WIDE) as visit:
        await visit.open("/console")
        stops = [await _tab(visit.page) for _ in range(8)]
        assert [name for name, _ in stops] == [
            "Skip to the content",
            "Documentation",
            "data",
            "readers",
            "pushes",
            "uses",
            "ways",
            "Metrics",
        ]
        assert {outline for _, outline in stops} == {"solid 3px"}
        await visit.page.locator(".skip").focus()
        await visit.page.keyboard.press("Enter")
        assert await visit.page.evaluate("document.activeElement.id") == "content"
        assert (await _tab(visit.page))[0] == "data"
        # Redrawing does not take the focus.
        operating.clock.now += 1
        await expect(visit.page.locator("#since")).to_have_text("12:00:01 UTC")
        assert await visit.page.evaluate(_FOCUSED) == "data"


async def test_nothing_is_cut_at_any_width(browser: Browser, operating: ConsoleService, key: str) -> None:
    for path in (FEED, f"{_ONE}&last_platform_listing_id={'L' * 60}", "/v1/agents"):
        await operating.get(path, key)
    async with open_visit(browser, operating, WIDE) as visit:
        await visit.open("/console")
        await expect(visit.page.locator("#consumers")).to_contain_text("North portal")
        for width in (1280, 768, 400):
            await visit.page.set_viewport_size({"width": width, "height": 800})
            assert await visit.page.evaluate(CUT) == [], width
            assert await visit.findings() == [], width
            await visit.page.emulate_media(color_scheme="dark")
            assert await visit.findings(runOnly=["color-contrast"]) == [], (width, "dark")
            await visit.page.emulate_media(color_scheme="light")


_FOCUSED = "document.activeElement.getAttribute('aria-labelledby') ?? document.activeElement.innerText.trim()"
_OUTLINE = "(style => `${style.outlineStyle} ${style.outlineWidth}`)(getComputedStyle(document.activeElement))"


async def _tab(page: Page) -> tuple[str, str]:
    """Go on; return what has the focus now, and how that is seen."""
    await page.keyboard.press("Tab")
    return str(await page.evaluate(_FOCUSED)), str(await page.evaluate(_OUTLINE))


async def test_runs_and_builds_are_shown(browser: Browser, operating: ConsoleService, stand_in: StandIn) -> None:
    stand_in.documents["control", "last-listings"] = LAST | {"dead": 3}
    stand_in.documents["control", "build-listings"] = {"progress": BUILD}
    async with open_visit(browser, operating, WIDE) as visit:
        await visit.open("/console")
        name = visit.page.get_by_role("rowheader", name="listings", exact=True)
        line = visit.page.locator("#resources tr").filter(has=name)
        await expect(line.get_by_role("cell").nth(2)).to_have_text("90 s3 bad records")
        await expect(line.get_by_role("cell").last).to_have_text("listings-v0002loading, line 1,200")
        stand_in.documents["control", "build-listings"] = {"progress": BUILD | {"refusal": "It lacks 30 of 50."}}
        await expect(line.get_by_role("cell").last).to_have_text("listings-v0002refused")
        await expect(visit.page.locator("#notices")).to_contain_text("the build of listings-v0002 was refused.")
        assert await visit.findings() == []
        assert visit.is_clean()


async def test_it_says_that_the_service_does_not_answer(browser: Browser, operating: ConsoleService) -> None:
    async with open_visit(browser, operating, WIDE) as visit:
        await visit.open("/console")
        await expect(visit.page.locator("#headline")).to_have_text("All is well.")
        await visit.page.context.set_offline(offline=True)
        await expect(visit.page.locator("#headline")).to_have_text("The service is not responding.")
        await expect(visit.page.locator("#notices")).to_contain_text("The data below is from ")


async def test_markup_in_stored_names_is_shown_as_text(
    browser: Browser, operating: ConsoleService, stand_in: StandIn
) -> None:
    key = stand_in.grant(name=MARKUP)
    for _ in range(STUCK_AFTER_REPEATS):
        await operating.get(_ONE, key)
    stand_in.documents["control", "last-listings"] = LAST | {"dead": 3}
    stand_in.documents["control", "build-listings"] = {"progress": BUILD | {"refusal": MARKUP}}
    async with open_visit(browser, operating, WIDE) as visit:
        await visit.open("/console")
        for place in ("#consumers", "#notices"):
            await expect(visit.page.locator(place)).to_contain_text("<img src=x onerror=")
        assert await visit.page.evaluate("document.querySelectorAll('main img, main script, [onerror]').length") == 0
        assert "stolen" not in await visit.page.title()
