"""What programs find without a key: the catalogue of APIs, the contact, the list for language models, the root."""

import datetime as dt
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from service.site.rendering import site_pages
from tests.service.raw_http import RawResponse, exchange_one, request, serve_raw
from tests.site.conftest import RunningService
from tests.site.page_parser import SITE

_CONTACT = "api@broker.example"
_BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@asynccontextmanager
async def _with_contact(served: RunningService, contact: str) -> AsyncIterator[int]:
    proxies = ("127.0.0.0/8",)
    async with serve_raw(served.stand_in.url, contact=contact, trusted_proxies=proxies) as port:
        yield port


async def _get(port: int, path: str, **headers: str) -> RawResponse:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await exchange_one(port, request(path, headers={"Accept-Encoding": "identity", **sent}))


async def test_the_catalogue_leads_to_what_the_service_serves(served: RunningService) -> None:
    answer = await _get(served.port, "/.well-known/api-catalog")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("application/linkset+json; profile=")
    assert 'rel="api-catalog"' in answer.headers["Link"]
    listed = json.loads(answer.body)["linkset"]
    assert [context["anchor"] for context in listed] == ["http://x/v1", "http://x/v1/reso"]
    targets = [link for context in listed for links in context.values() if isinstance(links, list) for link in links]
    assert len(targets) >= 5
    for link in targets:
        path = link["href"].removeprefix("http://x")
        answer = await _get(served.port, path, x_api_key=served.key)
        assert (answer.status in {200, 503}, link["type"] in answer.headers["Content-Type"]) == (True, True), link


async def test_urls_are_those_by_which_a_proxy_is_reached(served: RunningService) -> None:
    async with _with_contact(served, _CONTACT) as port:
        forwarded = {"X_Forwarded_Proto": "https", "X_Forwarded_Host": "api.broker.example"}
        listed = json.loads((await _get(port, "/.well-known/api-catalog", **forwarded)).body)["linkset"]
        text = (await _get(port, "/.well-known/security.txt", **forwarded)).body.decode()
    assert listed[0]["anchor"] == "https://api.broker.example/v1"
    assert "\nCanonical: https://api.broker.example/.well-known/security.txt\n" in text


@pytest.mark.parametrize(
    ("contact", "uri"), [(_CONTACT, f"mailto:{_CONTACT}"), ("https://broker.example/security", None)]
)
async def test_the_contact_is_the_one_of_the_setting(served: RunningService, contact: str, uri: str | None) -> None:
    async with _with_contact(served, contact) as port:
        answer = await _get(port, "/.well-known/security.txt")
        page = (await _get(port, "/docs")).body.decode()
        info = json.loads((await _get(port, "/v1/openapi.json")).body)["info"]
    members = dict(line.split(": ", 1) for line in answer.body.decode().splitlines())
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert members["Contact"] == (uri or contact)
    left = dt.datetime.fromisoformat(members["Expires"]) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(days=30) < left < dt.timedelta(days=365)
    assert f'<a href="{uri or contact}">Contact</a>' in page
    assert contact in info["contact"].values()


async def test_without_a_contact_there_is_no_security_txt(served: RunningService) -> None:
    answer = await _get(served.port, "/.well-known/security.txt")
    assert answer.status == 404
    assert b"BROKERAGE_CONTACT" in answer.body
    assert b">Contact</a>" not in (await _get(served.port, "/docs")).body


async def test_language_models_find_every_page_as_markdown(served: RunningService) -> None:
    answer = await _get(served.port, "/llms.txt")
    text = answer.body.decode()
    assert answer.headers["Content-Type"] == "text/markdown; charset=utf-8"
    assert text.startswith("# Brokerage API\n\n> ")
    linked = re.findall(r"\]\(http://x(\S+)\)", text)
    assert linked == [*(page.markdown_path for page in site_pages(SITE).values()), "/v1/openapi.json"]


async def test_the_root_leads_a_browser_to_the_documentation_and_a_program_to_the_resources(
    served: RunningService,
) -> None:
    browser = await _get(served.port, "/", Accept=_BROWSER)
    assert (browser.status, browser.headers["Location"], browser.headers["Vary"]) == (303, "/docs", "Accept")
    for accept in ("*/*", "application/json"):
        program = await _get(served.port, "/", Accept=accept)
        assert (program.status, json.loads(program.body)["documentation"]) == (200, "/docs")
        assert 'rel="api-catalog"' in program.headers["Link"]
    assert (await _get(served.port, "/v1", Accept=_BROWSER)).status == 200
