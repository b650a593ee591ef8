"""The pages in a real Chromium: no errors, no requests to other hosts, accessible and readable."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from service.site.pages import PAGE_BY_PATH
from tests.console.console_service import ConsoleService
from tests.site.conftest import RunningService

Looks = dict[str, Any]

MAP = "/docs/map"
# A busy machine must not fail the test.
_PATIENCE_MILLISECONDS = 120_000
expect.set_options(timeout=_PATIENCE_MILLISECONDS)
_AXE = Path(__file__).parent / "axe" / "axe.min.js"
# What passes is neither described nor sent: there is much of it.
_FINDINGS = """rules => axe.run(document, {resultTypes: ["violations"], ...rules}).then(found =>
    found.violations.map(({id, impact, nodes}) => [id, impact, nodes.map(node => node.html)]))"""
_COLOURS = """["backgroundColor", "color"].map(
    name => getComputedStyle(document.body)[name].match(/\\d+/g).map(Number))"""
# Colours that fade are judged when they are there.
_SETTLED = """Promise.allSettled(
    document.getAnimations().filter(one => one instanceof CSSTransition).map(one => one.finished)).then(() => true)"""
# What can be pressed or scrolled, and of it what has had the focus, seen by an outline.
_OFFERED = """() => {
    const kinds = "a[href], button, input, select, textarea, summary, [tabindex='0']";
    const shown = [...document.querySelectorAll(kinds)].filter(e => e.checkVisibility({visibilityProperty: true}));
    if (!window.offered) addEventListener("focusin", ({target}) =>
        getComputedStyle(target).outlineStyle !== "none" && offered.delete(target));
    window.offered = new Set(shown.filter(e => !e.disabled && !e.ariaHidden));
    const count = offered.size;
    [...offered][0].focus();
    return count - 1;
}"""
_GRAVE = {"serious", "critical"}
WIDE: Looks = {"viewport": {"width": 1440, "height": 900}, "color_scheme": "light"}
NARROW: Looks = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}
# What is wider than its place: the page, code and tables.
CUT = """() => [document.documentElement, ...document.querySelectorAll(".scroll")].filter(
    part => part.checkVisibility() && part.scrollWidth > part.clientWidth + 1).map(part => part.textContent)"""
looks = pytest.mark.parametrize("looks", [WIDE, NARROW], ids=["wide-light", "narrow-dark"])


@dataclass
class BrowserVisit:
    """A page of the browser, and what it has asked and complained about."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    async def open(self, path: str) -> None:
        """Open a page of the site and wait until it has all that it loads."""
        await self.page.goto(self.origin + path, wait_until="networkidle")
        if path == MAP:
            await self.page.wait_for_selector("#listings button")

    async def findings(self, **rules: Any) -> list[tuple[str, list[str]]]:
        """Return what axe finds grave; `rules` are options of axe that select some of its rules."""
        # By the tool's own door: the page's policy lets no other script in.
        await self.page.evaluate(_axe())
        await self.page.evaluate(_SETTLED)
        found: list[list[Any]] = await self.page.evaluate(_FINDINGS, rules)
        return [(rule, nodes) for rule, impact, nodes in found if impact in _GRAVE]

    async def unreached(self) -> list[str]:
        """Press Tab from its first stop through the page; return what was not reached, or without a sign of it."""
        for _ in range(await self.page.evaluate(_OFFERED)):
            await self.page.keyboard.press("Tab")
        left: list[str] = await self.page.evaluate("[...offered].map(e => e.outerHTML)")
        return left

    def is_clean(self) -> bool:
        """Whether there were no console errors and no requests to other hosts."""
        outside = [url for url in self.asked if not url.startswith((f"{self.origin}/", "data:"))]
        assert (self.complaints, outside) == ([], [])
        return bool(self.asked)


@cache
def _axe() -> str:
    return _AXE.read_text(encoding="utf-8")


@asynccontextmanager
async def open_visit(
    browser: Browser, served: RunningService | ConsoleService, looks: Looks
) -> AsyncIterator[BrowserVisit]:
    """Open a page with nothing in its memory."""
    context = await browser.new_context(**looks)
    context.set_default_timeout(_PATIENCE_MILLISECONDS)
    visit = BrowserVisit(await context.new_page(), served.url)
    visit.page.on("console", lambda said: visit.complaints.append(said.text))
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    visit.page.on("request", lambda request: visit.asked.append(request.url))
    yield visit
    await context.close()


# All operations have the layout of these.
_OPERATIONS = [f"/docs/reference/{name}" for name in ("list-listings", "list-agents", "take-snapshot", "ready")]


@pytest.mark.parametrize("path", [*PAGE_BY_PATH, *_OPERATIONS])
async def test_a_page_is_sound(browser: Browser, served: RunningService, path: str) -> None:
    """Loaded once, looked at in both widths and both schemes."""
    async with open_visit(browser, served, WIDE) as visit:
        await visit.open(path)
        await visit.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        for width in (1280, 768, 400):
            await visit.page.set_viewport_size({"width": width, "height": 800})
            assert await visit.page.evaluate(CUT) == []
            assert await visit.unreached() == []
            assert await visit.findings() == [], width
            # Only colours differ in the other scheme.
            await visit.page.emulate_media(color_scheme="dark")
            assert await visit.findings(runOnly=["color-contrast"]) == [], (width, "dark")
            await visit.page.emulate_media(color_scheme="light")
        assert visit.is_clean()


async def test_dark_is_dark_and_light_is_light(browser: Browser, served: RunningService) -> None:
    sums = {}
    for scheme in ("light", "dark"):
        async with open_visit(browser, served, {"color_scheme": scheme}) as visit:
            await visit.open("/docs/walk")
            colours = await visit.page.evaluate(_COLOURS)
            sums[scheme] = [sum(colour) for colour in colours]
    assert sums["light"][0] > 700 > sums["light"][1] + 400
    assert sums["dark"][0] < 100 < sums["dark"][1] - 400


async def test_the_keyboard_goes_in_the_order_of_the_page(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, WIDE) as visit:
        await visit.open("/docs/walk")
        order = [await _tab(visit.page) for _ in range(7)]
        tools = ["Search /", "Key", "Try it"]
        assert order == ["Skip to the content", "Brokerage API", *tools, "Get started", "Authentication"]
        await visit.page.locator(".skip").focus()
        assert await visit.page.evaluate("document.activeElement.getBoundingClientRect().top") >= 0
        await visit.page.keyboard.press("Enter")
        assert await _tab(visit.page) == "poll"


async def _tab(page: Page) -> str:
    await page.keyboard.press("Tab")
    return str(await page.evaluate("document.activeElement.innerText.trim()"))


async def test_what_has_the_focus_is_seen(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, WIDE) as visit:
        await visit.open("/docs")
        await _tab(visit.page)
        await _tab(visit.page)
        outline = await visit.page.evaluate("getComputedStyle(document.activeElement).outline")
        assert "solid 3px" in outline


async def test_the_menu_of_a_narrow_screen_opens_and_closes(browser: Browser, served: RunningService) -> None:
    async with open_visit(browser, served, NARROW) as visit:
        await visit.open("/docs")
        listed = visit.page.locator("#navigation").get_by_role("link", name="Rate limits")
        await expect(listed).to_be_hidden()
        await visit.page.get_by_role("button", name="Menu").focus()
        await visit.page.keyboard.press("Enter")
        await expect(listed).to_be_visible()
        assert await visit.findings() == []
        await visit.page.keyboard.press("Escape")
        await expect(listed).to_be_hidden()
