"""The service before a stand-in Elasticsearch, for all tests of the site, and a real Chromium that looks at it."""

import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from msgspec import to_builtins
from playwright.async_api import Browser, async_playwright

from cluster.control_index import Mark
from tests.service.raw_http import serve_raw
from tests.service.stand_in import StandIn

# What a browser asks for by itself must not be taken for what a page asks for.
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
_START_MILLISECONDS = 120_000
_NAMES = ("chromium", "chromium-browser", "google-chrome")


MARK = Mark(clock=1_773_480_413_000, sequence=1, epoch=0, generation="listings-v0001")


@dataclass(frozen=True)
class RunningService:
    """The running service, a key of it, and the scripted Elasticsearch behind it."""

    port: int
    key: str
    stand_in: StandIn

    @property
    def url(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture(scope="session")
async def served() -> AsyncIterator[RunningService]:
    """The service with a company, a listing and the mark of the listings."""
    stand_in = StandIn()
    stand_in.add("companies", "acme", {"platform_company_id": "acme"}, numeric_id="1")
    stand_in.add("listings", "L1", {"PlatformListingId": "L1", "Status": "Active", "ListPrice": 685_000})
    stand_in.documents["control", "mark-listings"] = to_builtins(MARK)
    key = stand_in.grant()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(stand_in.running())
        yield RunningService(await stack.enter_async_context(serve_raw(stand_in.url)), key, stand_in)


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium without a window."""
    async with open_chromium() as opened:
        yield opened


@asynccontextmanager
async def open_chromium() -> AsyncIterator[Browser]:
    """Start it, and close it behind what is done with it."""
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.fail("Chromium is missing: `make chromium` installs it as root, or install `chromium` yourself.")
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(executable_path=path, args=[*_FLAGS], timeout=_START_MILLISECONDS)
        yield opened
        await opened.close()
