"""The private port: what is there, and how it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from service.console.routes import _FILES

if TYPE_CHECKING:
    from tests.console.console_service import ConsoleService

_DATA = ("/console/data.json", "/console/worker.json")


@pytest.mark.parametrize("path", [*_FILES, *_DATA])
async def test_the_private_port_alone_has_the_console(operating: ConsoleService, path: str) -> None:
    status, headers, _ = await operating.private(path)
    assert (status, headers["Cache-Control"], headers["X-Content-Type-Options"]) == (200, "no-store", "nosniff")
    assert await operating.get(path) == 404


@pytest.mark.parametrize("path", _FILES)
async def test_the_page_may_load_what_is_ours_and_nothing_else(operating: ConsoleService, path: str) -> None:
    _, headers, _ = await operating.private(path)
    policy = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
    closed = dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
    own = dict.fromkeys(("style-src", "script-src", "connect-src"), "'self'")
    assert policy == {**closed, **own, "img-src": "'self' data:"}


async def test_the_metrics_are_on_the_same_port(operating: ConsoleService) -> None:
    status, _, body = await operating.private("/metrics")
    assert (status, b"brokerage_index_mark_sequence" in body) == (200, True)
