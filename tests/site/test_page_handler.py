"""Pages over HTTP: without a key, without Elasticsearch, once to each, and nothing but them."""

import gzip
import json
from collections.abc import AsyncIterator, Callable

import pytest
import zstandard

from service.site.pages import SitePage, site_assets
from service.site.rendering import site_pages
from tests.service.raw_http import exchange_one, request, serve_raw
from tests.site.conftest import RunningService
from tests.site.page_parser import SITE, page_html

_UNPACK: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": gzip.decompress,
    "zstd": zstandard.ZstdDecompressor().decompress,
}
_PLAIN = {"Accept-Encoding": "identity"}
_ALL = site_pages(SITE)


@pytest.fixture(scope="module")
async def unserved() -> AsyncIterator[int]:
    """The port of a service whose Elasticsearch is away."""
    async with serve_raw("http://127.0.0.1:9") as port:
        yield port


@pytest.mark.parametrize("path", _ALL)
async def test_a_page_needs_neither_a_key_nor_elasticsearch(unserved: int, path: str) -> None:
    answer = await exchange_one(unserved, request(path, headers=_PLAIN))
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert answer.body.startswith(b"<!doctype html>")
    assert "RateLimit" not in answer.headers


@pytest.mark.parametrize("path", _ALL)
async def test_a_page_may_load_what_is_ours_and_nothing_else(served: RunningService, path: str) -> None:
    headers = (await exchange_one(served.port, request(path))).headers
    policy = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
    closed = dict.fromkeys(("default-src", "base-uri", "form-action", "frame-ancestors"), "'none'")
    own = dict.fromkeys(("style-src", "script-src", "connect-src"), "'self'")
    assert policy == {**closed, **own, "img-src": "'self' data:"}
    assert (headers["Referrer-Policy"], headers["X-Content-Type-Options"]) == ("no-referrer", "nosniff")
    assert headers["Cache-Control"] == "public, max-age=300"


@pytest.mark.parametrize("name", site_assets())
@pytest.mark.parametrize("coding", _UNPACK)
async def test_an_asset_is_kept_for_good(served: RunningService, name: str, coding: str) -> None:
    asset = site_assets()[name]
    answer = await exchange_one(served.port, request(asset.path, headers={"Accept-Encoding": coding}))
    assert _UNPACK[coding](answer.body) == asset.body
    assert answer.headers.get("Content-Encoding", "identity") == coding
    assert answer.headers["Content-Type"] == f"{asset.content_type}; charset=utf-8"
    assert (answer.headers["Cache-Control"], answer.headers["Vary"]) == (
        "public, max-age=31536000, immutable",
        "Accept-Encoding",
    )


def test_another_asset_has_another_address() -> None:
    assert len({asset.path.split(".")[-2] for asset in site_assets().values()}) == len(site_assets())


@pytest.mark.parametrize("page", _ALL.values(), ids=lambda page: page.name)
async def test_a_page_is_also_there_as_markdown(served: RunningService, page: SitePage) -> None:
    answer = await exchange_one(served.port, request(page.markdown_path, headers=_PLAIN))
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/markdown; charset=utf-8")
    text = answer.body.decode()
    assert text.startswith("# ")
    assert "<!-- " not in text
    assert page.markdown_path in page_html(page.path)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("coding", _UNPACK)
async def test_who_has_a_page_gets_304(served: RunningService, method: str, coding: str) -> None:
    first = await exchange_one(served.port, request("/docs", method, {"Accept-Encoding": coding}))
    known = {"Accept-Encoding": coding, "If-None-Match": first.headers["ETag"]}
    again = await exchange_one(served.port, request("/docs", method, known))
    assert (first.status, again.status, again.body) == (200, 304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["Cache-Control"] == "public, max-age=300"
    assert (
        await exchange_one(served.port, request("/docs", method, known | {"If-None-Match": '"other"'}))
    ).status == 200


async def test_each_coding_has_a_tag_of_its_own(served: RunningService) -> None:
    answers = [
        await exchange_one(served.port, request("/docs", headers={"Accept-Encoding": coding})) for coding in _UNPACK
    ]
    assert len({answer.headers["ETag"] for answer in answers}) == len(_UNPACK)


async def test_head_has_the_length_and_sends_nothing(served: RunningService) -> None:
    whole, head = [await exchange_one(served.port, request("/docs", method)) for method in ("GET", "HEAD")]
    assert (head.status, head.body, head.headers["Content-Length"]) == (200, b"", str(len(whole.body)))


@pytest.mark.parametrize("path", ["/docs/", "/docs//", "//docs", "/docs/walk/", "/docs//walk"])
async def test_extra_slashes_are_as_if_absent(served: RunningService, path: str) -> None:
    tidied = "/docs/walk" if "walk" in path else "/docs"
    assert (await exchange_one(served.port, request(path))).body == (
        await exchange_one(served.port, request(tidied))
    ).body


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/docs/walks",
            "/docs/start",
            "/docs/walks.md",
            "/docs/text/start.md",
            "/docs/search",
            "/docs/assets",
            "/docs/assets/page.html",
        ),
        *("/docs/assets/site.css", "/docs/../service/app.py", "/docs/%2e%2e/app.py", "/docs/..%2fapp.py"),
        *(
            "/docs/assets/..%2f..%2f..%2fsettings.py",
            "/docs//etc/passwd",
            "/docs/%2fetc%2fpasswd",
            "/docs/%00",
            "/docs/walk%20",
        ),
        *("/docs/assets/../../errors.py", "/docs/minisearch/LICENSE", "/docs/reference/nope", "/docs/.", "/docsx"),
    ],
)
async def test_nothing_else_is_there(served: RunningService, path: str) -> None:
    answer = await exchange_one(served.port, request(path))
    assert (answer.status, answer.headers["Content-Type"]) == (404, "application/problem+json")
    assert answer.headers["Cache-Control"] == "no-store"
    assert len(answer.body) < 1_000


async def test_a_browser_gets_a_page_of_its_own_where_there_is_none(served: RunningService) -> None:
    accepted = _PLAIN | {"Accept": "text/html,*/*;q=0.8"}
    answer = await exchange_one(served.port, request("/docs/<b>nope", headers=accepted))
    assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert answer.headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    text = answer.body.decode()
    assert "<h1" in text
    assert "nope" not in text
    assert (await exchange_one(served.port, request("/docs/start.md", headers=accepted))).status == 200


async def test_an_unknown_page_is_not_found(served: RunningService) -> None:
    answer = await exchange_one(served.port, request("/docs/guide"))
    assert json.loads(answer.body)["detail"] == "The documentation has no such page; it starts at /docs."


async def test_other_methods_are_refused_as_everywhere(served: RunningService) -> None:
    assert (await exchange_one(served.port, request("/docs", "OPTIONS"))).headers["Allow"] == "GET, HEAD, OPTIONS"
    assert (await exchange_one(served.port, request("/docs/walk", "DELETE"))).status == 405


async def test_a_page_whose_url_holds_a_key_is_not_cached(served: RunningService) -> None:
    answer = await exchange_one(served.port, request(f"/docs?api-key={served.key}"))
    assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
    assert served.key.encode() not in answer.body
