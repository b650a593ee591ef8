"""Partners install the client from the service that they read."""

import asyncio
import sys
from pathlib import Path

from service.site.client_wheel import client_wheel_name
from service.site.pages import PAGE_BY_PATH
from service.site.rendering import page_text
from tests.site.conftest import RunningService
from tests.site.page_parser import SITE

_PROGRAM = "import brokerage_feed, brokerage_feed.command; print(brokerage_feed.__file__)"


async def test_the_client_installs_from_the_service(served: RunningService, tmp_path: Path) -> None:
    address = f"{served.url}/docs/client"
    assert f"/docs/client/{client_wheel_name()}\n" in page_text(PAGE_BY_PATH["/docs/copy"], SITE)
    for number, wanted in enumerate((f"{address}/{client_wheel_name()}", f"--find-links={address} brokerage-feed")):
        place = tmp_path / str(number)
        options = ("--quiet", "--no-index", "--no-deps", "--target", str(place), *wanted.split())
        assert await _run("-m", "pip", "install", *options) == ""
        assert {path.name for path in place.glob("*.dist-info/*")} >= {
            "METADATA",
            "RECORD",
            "WHEEL",
            "entry_points.txt",
        }
        assert (
            await _run("-c", f"import sys; sys.path.insert(0, {str(place)!r}); {_PROGRAM}")
            == f"{place}/brokerage_feed/__init__.py\n"
        )


async def _run(*arguments: str) -> str:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=pipe, stderr=pipe)
    printed, complained = await process.communicate()
    assert process.returncode == 0, complained.decode()
    return printed.decode()
