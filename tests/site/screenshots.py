"""Takes the pictures of the pages for the documentation: `make screenshots`, on a node and sample data of its own."""

import asyncio
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from playwright.async_api import Browser, ViewportSize

import service.console.overview as notices
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, open_source, reindex
from sample import write_source
from service.console.history import STEP_COUNT, STEP_SECONDS
from service.keys.store import KeyGrant, KeyStore
from tests.console.console_service import ConsoleService, MovableClock, serve_console
from tests.site.conftest import open_chromium

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
_LISTINGS = 2_000
_SIZE: ViewportSize = {"width": 1280, "height": 800}
_GRANTS = (
    KeyGrant("North portal", all_companies=True, rate=None),
    KeyGrant("Evergreen's own site", companies=("evergreen-realty",), rate=None),
    KeyGrant("Analytics", all_companies=True, rate=6),
)
_FEED = "/v1/listings?platform_company_id=evergreen-realty&page_size=20"
_SOLD = "/v1/sold_listings?updated_since=1&page_size=50"


async def _load(connection: ConnectionSettings, folder: Path) -> list[str]:
    """Index sample data; return the texts of the keys."""
    write_source(folder, _LISTINGS)
    async with connect(connection, connections=4, timeout=60) as client:
        with open_source(str(folder)) as opened:
            await reindex(IndexerContext(client, connection, IndexerSettings(dead_letter_folder=str(folder))), opened)
        store = KeyStore(client, connection.keys_index)
        return [(await store.create(grant)).reveal() for grant in _GRANTS]


@dataclass
class _Walk:
    """A partner that walks a feed again and again."""

    path: str
    key: str
    cursor: str = ""

    async def go_on(self, operating: ConsoleService) -> None:
        """Read the next page."""
        address = f"http://127.0.0.1:{operating.port}{self.path}{self.cursor}"
        async with operating.http.get(address, headers={"x-api-key": self.key}) as answer:
            page = await answer.json()
        last = page["Listings"][-1]["PlatformListingId"] if page["Listings"] else ""
        self.cursor = "" if page["FinalPage"] else f"&last_platform_listing_id={last}"


async def _ask(operating: ConsoleService, keys: list[str]) -> None:
    """Read as partners do, ten minutes within seconds: the clock is moved, the requests are real."""
    walks = [_Walk(_FEED, keys[0]), _Walk(_FEED, keys[1]), _Walk(_SOLD, keys[0])]
    for step in range(STEP_COUNT):
        operating.clock.now += STEP_SECONDS
        for _ in range(round(3 + 2 * math.sin(step / 9))):
            for walk in walks:
                await walk.go_on(operating)
        if step % 6 == 0:
            await operating.get("/v1/agents", keys[2])
        await operating.data()


async def _take(browser: Browser, url: str, name: str, awaited: str) -> None:
    page = await browser.new_page(viewport=_SIZE, color_scheme="light")
    await page.goto(url, wait_until="networkidle")
    await page.wait_for_selector(awaited)
    await page.screenshot(path=FOLDER / f"{name}.png")
    await page.close()


async def _main(connection: ConnectionSettings, folder: Path) -> None:
    keys = await _load(connection, folder)
    FOLDER.mkdir(exist_ok=True)
    async with (
        serve_console(connection, MovableClock(time.time() - STEP_COUNT * STEP_SECONDS)) as operating,
        open_chromium() as browser,
    ):
        await _ask(operating, keys)
        site = f"http://127.0.0.1:{operating.port}/docs"
        await _take(browser, site, "docs", "h1")
        await _take(browser, f"{site}/reference/list-listings", "reference", "h1")
        await _take(browser, f"{operating.url}/console", "console", "#charts canvas")


if __name__ == "__main__":
    # The machine that takes pictures may be a busy one, which is not what they are of.
    notices.MAX_LOOP_LAG_SECONDS = notices.MAX_P99_SECONDS = math.inf
    with EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster, tempfile.TemporaryDirectory() as made:
        asyncio.run(_main(ConnectionSettings(url=(cluster.url,)), Path(made)))
