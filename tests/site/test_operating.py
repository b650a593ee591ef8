"""The guide for operators: every page is rendered, and its links lead to pages and sections that there are."""

import re

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from playwright.async_api import Browser, expect

from service.site.operating import _FILE_BY_PATH, add_operating, operating_page

_IDS = {path: {*re.findall(r'id="([^"]+)"', operating_page(path).decode())} for path in _FILE_BY_PATH}


@pytest.mark.parametrize("path", _FILE_BY_PATH)
def test_links_lead_to_pages_and_sections(path: str) -> None:
    html = operating_page(path).decode()
    targets = [target.partition("#") for target in re.findall(r'<a [^>]*href="([^"]+)"', html) if ":" not in target]
    assert {page for page, _, _ in targets} - {"", "/console"} <= _FILE_BY_PATH.keys()
    assert [f"{page}#{section}" for page, _, section in targets if section and section not in _IDS[page or path]] == []


async def test_the_private_port_has_the_guide_and_its_style() -> None:
    app = web.Application()
    add_operating(web.Application(), app)
    async with TestClient(TestServer(app)) as client:
        answer = await client.get("/operating/keys")
        html = await answer.text()
        assert (answer.status, answer.content_type) == (200, "text/html")
        assert '<h1 id="api-keys">' in html
        style = re.findall(r'rel="stylesheet" href="([^"]+)"', html)[0]
        assert (await client.get(style)).content_type == "text/css"
        assert (await client.get("/operating/nothing")).status == 404


async def test_the_search_finds_a_setting_and_a_command(browser: Browser) -> None:
    app = web.Application()
    add_operating(web.Application(), app)
    async with TestServer(app) as server, await browser.new_page() as page:
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.goto(str(server.make_url("/operating/keys")))
        await page.keyboard.press("/")
        for words, path in (("BROKERAGE_REVOCATION_LIST", "/operating/keys"), ("compact", "/operating/maintain")):
            await page.locator("#search-words").fill(words)
            await expect(page.locator("#search-results")).to_have_attribute("data-words", words)
            links = await page.locator("#search-results a").evaluate_all("links => links.map(link => link.pathname)")
            assert path in links[:3]
        assert problems == []


async def test_the_console_is_linked_where_there_is_one() -> None:
    assert 'href="/console"' in operating_page("/operating/keys").decode()
    assert 'href="/console"' not in operating_page("/operating/keys", has_console=False).decode()
