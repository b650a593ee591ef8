"""The console in a real Chromium."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from playwright.async_api import expect

from service.telemetry.consumers import STUCK_REPEATS
from tests.console.operated import FEED
from tests.service.stand_in import refusal
from tests.site.test_browser import NARROW, WIDE, visiting

if TYPE_CHECKING:
    from playwright.async_api import Browser

    from tests.console.operated import Operated
    from tests.service.stand_in import StandIn
    from tests.site.test_browser import Looks

_ONE = f"{FEED}&page_size=1"


@pytest.mark.parametrize("looks", [WIDE, NARROW], ids=["wide-light", "narrow-dark"])
async def test_the_page_is_sound_and_says_that_all_is_well(
    browser: Browser, operating: Operated, key: str, looks: Looks
) -> None:
    await operating.get(FEED, key)
    async with visiting(browser, operating, looks) as visit:
        await visit.open("/console")
        await expect(visit.page.get_by_role("heading", level=1)).to_have_text("✓ All is well.")
        await expect(visit.page.locator("#resources tr").filter(has_text="listings-v0000")).to_contain_text("17")
        await expect(visit.page.locator("#consumers")).to_contain_text("North portal")
        assert await visit.page.locator("#charts svg[role=img]").count() == 3
        assert await visit.page.evaluate("document.documentElement.scrollWidth") <= looks["viewport"]["width"]
        assert await visit.findings() == []
        assert visit.is_clean()


async def test_it_says_in_words_what_is_wrong_and_that_it_has_passed(
    browser: Browser, operating: Operated, stand_in: StandIn, key: str
) -> None:
    async with visiting(browser, operating, NARROW) as visit:
        await visit.open("/console")
        for _ in range(STUCK_REPEATS):
            await operating.get(_ONE, key)
        heading, notices = visit.page.get_by_role("heading", level=1), visit.page.locator("#notices")
        await expect(heading).to_have_text("! One thing needs a look.")
        await expect(notices).to_contain_text("Look: North portal asked 5 times in a row for the same page")
        assert await visit.findings() == []
        stand_in.is_away(refusal(503, "away"))
        await expect(heading).to_have_text("✕ One thing is wrong.")
        await expect(notices).to_contain_text("Wrong: elasticsearch: it cannot be asked.")
        await expect(visit.page.locator("#verdict")).to_have_class("wrong")
        assert await visit.findings() == []
        stand_in.replies.clear()
        stand_in.strange.clear()
        await operating.get(FEED, key)
        await expect(heading).to_have_text("✓ All is well.")
        assert visit.is_clean()


async def test_it_says_that_the_service_does_not_answer(browser: Browser, operating: Operated) -> None:
    async with visiting(browser, operating, WIDE) as visit:
        await visit.open("/console")
        await expect(visit.page.locator("#headline")).to_have_text("All is well.")
        await visit.page.context.set_offline(offline=True)
        await expect(visit.page.locator("#headline")).to_have_text("The service does not answer.")
        await expect(visit.page.locator("#notices")).to_contain_text("What stands below is of ")
