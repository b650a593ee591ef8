"""Routing looks up few prefixes of a path, however long it is."""

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from service.http.requests import MAX_PATH_DEPTH, BoundedRouter


class CountingIndex(dict[str, Any]):
    """Counts the prefixes that are looked up."""

    lookups = 0

    def get(self, key: str, default: Any = None) -> Any:
        """Count, and return the value."""
        self.lookups += 1
        return super().get(key, default)


async def _handle(_: web.Request) -> web.Response:
    return web.Response()


def _router() -> tuple[BoundedRouter, CountingIndex]:
    router = BoundedRouter()
    router.add_get("/v1/listings/{listing_id}", _handle)
    index: Mapping[str, Any] = router._resource_index
    router._resource_index = counting = CountingIndex(index)
    return router, counting


@pytest.mark.parametrize("path", ["/a" * 32_000, "/" * 65_000, "/a/.." * 10_000, "/v1/listings" + "/a" * 4_000])
async def test_deep_paths_are_not_looked_up(path: str) -> None:
    router, index = _router()
    match = await router.resolve(make_mocked_request("GET", path))
    assert isinstance(match.http_exception, web.HTTPNotFound)
    assert index.lookups <= MAX_PATH_DEPTH


async def test_known_paths_are_found() -> None:
    router, _ = _router()
    assert (await router.resolve(make_mocked_request("GET", "/v1/listings/a%2fb"))).http_exception is None
