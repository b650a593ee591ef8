"""What helps to read the site, in a real Chromium: search, examples, the reader's key, the field filter, contents."""

import re

from playwright.async_api import Browser, expect

from tests.site.conftest import RunningService
from tests.site.test_browser import NARROW, WIDE, open_visit
from tests.waiting import until_true

_IN_VIEW = """id => {
    const {top, bottom} = document.getElementById(id).getBoundingClientRect();
    return top > 0 && bottom < innerHeight;
}"""
_COUNTED = re.compile(r"\d+ found")
_SIDEBAR = """(bar => (box => [box.left, box.top, box.width, bar.scrollTop])(bar.getBoundingClientRect()))(
    document.getElementById("navigation"))"""
_KEPT = "[Object.keys(sessionStorage).sort().join(), localStorage.length, document.cookie.length]"


async def test_a_link_to_a_section_of_another_page_leaves_the_console_empty(
    browser: Browser, served: RunningService
) -> None:
    async with open_visit(browser, served, NARROW) as visit:
        await visit.open("/docs")
        await visit.open("/docs/fields#listings-ListAgentUUID")
        await until_true(lambda: visit.page.evaluate(_IN_VIEW, "listings-ListAgentUUID"))
        assert visit.is_clean()


async def test_the_keyboard_searches_and_opens_what_is_found(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, NARROW) as visit:
        page, results = visit.page, visit.page.locator("#search-results a")
        await visit.open("/docs")
        assert not any("search.json" in url or "minisearch" in url for url in visit.asked)
        await page.keyboard.press("/")
        await page.keyboard.type("list agent uuid")
        await expect(results.first).to_contain_text("ListAgentUUID")
        assert await visit.findings() == []
        await page.keyboard.press("ArrowDown")
        await expect(results.first).to_be_focused()
        await page.keyboard.press("Enter")
        await page.wait_for_url("**/docs/fields#listings-ListAgentUUID")
        await expect(page.locator("#listings-ListAgentUUID")).to_be_visible()
        await until_true(lambda: page.evaluate(_IN_VIEW, "listings-ListAgentUUID"))
        await page.locator("#search-button").click()
        for typed, found in (("rate limmit", "Rate limits"), ("updated since", "updated_since"), ("qqqq", "")):
            await page.locator("#search-words").fill(typed)
            await expect(page.locator("#search-said")).to_have_text(_COUNTED if found else "Nothing found.")
            assert found in await page.locator("#search-results").inner_text()
        await page.keyboard.press("Escape")
        await expect(page.locator("#search-dialog")).to_be_hidden()
        assert visit.is_clean()


async def test_where_there_is_no_page_the_words_of_the_address_are_searched(
    browser: Browser, served: RunningService
) -> None:
    async with open_visit(browser, served, NARROW) as visit:
        await visit.page.goto(f"{served.url}/docs/rate-limits", wait_until="networkidle")
        await expect(visit.page.locator("h1")).to_contain_text("Page not found")
        await visit.page.get_by_role("button", name="Search the documentation").click()
        await expect(visit.page.locator("#search-words")).to_have_value("rate limits")
        await expect(visit.page.locator("#search-results a").first).to_contain_text("Rate limits")
        assert await visit.findings() == []


async def test_the_demo_hands_its_key_to_the_page_and_out_of_the_address(
    browser: Browser, served: RunningService
) -> None:
    async with open_visit(browser, served, WIDE) as visit:
        await visit.open(f"/docs#key={served.key}")
        await expect(visit.page.locator("#key-button")).to_have_text("Key ✓")
        assert visit.page.url.endswith("/docs")
        assert not any(served.key in url for url in visit.asked)


async def test_examples_have_the_address_and_the_key_of_the_reader(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, WIDE) as visit:
        page, example = visit.page, visit.page.locator(".examples .code.chosen").first
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await visit.open("/docs/keys")
        await expect(example).to_contain_text(f'"x-api-key: $KEY" "{served.url}/v1/companies"')
        await page.get_by_role("button", name="Python").first.click()
        await expect(example).to_contain_text('KEY = "bk_…"')
        await page.locator("#key-button").click()
        await page.keyboard.type(served.key)
        assert await visit.findings() == []
        await page.keyboard.press("Enter")
        await expect(example).to_contain_text(f'API = "{served.url}/v1"\nKEY = "{served.key}"')
        await example.get_by_role("button", name="Copy").click()
        await expect(example.get_by_role("button")).to_have_text("Copied")
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied == await example.locator("code").inner_text()
        # The other pages of the tab have both, and nothing outlives it.
        await visit.open("/docs/changes")
        await expect(example).to_contain_text(f'KEY = "{served.key}"')
        assert await page.evaluate(_KEPT) == ["key,language", 0, 0]
        await visit.open("/docs/map")
        await expect(page.locator("#key")).to_have_value(served.key)
        await page.locator("#key-button").click()
        await page.get_by_role("button", name="Forget").click()
        await expect(page.locator("#key-button")).to_have_text("Key")
        assert await page.evaluate(_KEPT) == ["language", 0, 0]
        assert not any(served.key in url for url in visit.asked)
        assert visit.is_clean()


async def test_the_field_dictionary_is_short_until_it_is_asked(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, WIDE) as visit:
        page, rows = visit.page, visit.page.locator("details.fields tbody tr:visible")
        await visit.open("/docs/fields")
        assert await page.evaluate("document.documentElement.scrollHeight") < 3_000
        assert await rows.count() == 0
        await page.get_by_label("Find a field").fill("commission")
        await expect(page.locator("#field-count")).to_have_text(f"{await rows.count()} fields")
        assert 0 < await rows.count() < 40
        assert all("ommission" in text for text in await rows.all_inner_texts())
        assert await visit.findings() == []
        await page.get_by_label("Find a field").fill("")
        await expect(rows).to_have_count(0)
        await page.locator("#page-contents").get_by_role("link", name="Teams").click()
        await expect(page.locator("#teams-uuid")).to_be_visible()


async def test_the_sidebar_stays_in_its_place(browser: Browser, served: RunningService) -> None:
    looks = WIDE | {"viewport": {"width": 1280, "height": 500}}
    async with open_visit(browser, served, looks) as visit:
        await visit.open("/docs")
        await visit.page.evaluate("document.getElementById('navigation').scrollTop = 180")
        places = []
        for name in ("Rate limits and sizes", "API reference", "Map of listings", "Field dictionary", "Changelog"):
            # A click by the mouse would scroll to the link first.
            link = visit.page.locator("#navigation").get_by_role("link", name=name, exact=True)
            await link.evaluate("link => link.click()")
            await expect(visit.page.locator("#navigation [aria-current]")).to_have_text(name)
            await visit.page.wait_for_load_state("networkidle")
            await visit.page.evaluate("scrollTo(0, 0)")
            places.append(await visit.page.evaluate(_SIDEBAR))
        assert len({tuple(place[:3]) for place in places}) == 1
        assert {place[3] for place in places} == {places[0][3]} != {0}


async def test_the_contents_follow_the_reader(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, WIDE) as visit:
        contents, page = visit.page.locator("#page-contents"), visit.page
        await visit.open("/docs/walk")
        await page.set_viewport_size({"width": 1280, "height": 800})
        await expect(contents).to_be_visible()
        await contents.get_by_role("link", name="A program").click()
        await expect(contents.locator("[aria-current]")).to_have_text("A program")
        await page.set_viewport_size({"width": 400, "height": 800})
        await expect(contents).to_be_hidden()
        await page.get_by_role("button", name="On this page").click()
        await contents.get_by_role("link", name="Numbered pages").click()
        await expect(contents).to_be_hidden()
