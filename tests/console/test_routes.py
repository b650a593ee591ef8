"""The private port: what is there, and how it is sent."""

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from cluster.settings import SettingError
from service.console.overview import _FILES
from service.http.requests import allowed_hosts_middleware
from service.settings import ServiceSettings
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


@pytest.mark.parametrize("path", [*_FILES, *_DATA, "/metrics", "/nothing"])
async def test_a_forged_host_is_refused_everywhere(operating: ConsoleService, path: str) -> None:
    for host in ("attacker.example", f"attacker.example:{operating.private_port}", "localhost.attacker.example", ""):
        async with operating.http.get(operating.url + path, headers={"Host": host}) as response:
            text = await response.text()
            assert response.status == 403
            assert "BROKERAGE_METRICS_ALLOWED_HOSTS" in text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LocalHost.:9100", 200),
        ("10.1.2.3:9100", 200),
        ("[::1]:9100", 200),
        ("[fe80::1]", 200),
        ("Metrics.Example:9100", 200),
        ("other.example", 403),
        ("metrics.example.attacker.example", 403),
        ("2130706433", 403),
        ("0x7f000001", 403),
        ("127.0.0.1@attacker.example", 403),
        ("[attacker.example]", 403),
    ],
)
async def test_addresses_and_allowed_names_are_accepted(host: str, status: int) -> None:
    async def respond(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application(middlewares=[allowed_hosts_middleware(["metrics.example"])])
    app.router.add_get("/", respond)
    async with TestClient(TestServer(app)) as http:
        assert (await http.get("/", headers={"Host": host})).status == status


@pytest.mark.parametrize("name", ["http://metrics.example", "metrics.example:9100", "a/b", "*"])
def test_an_allowed_host_is_a_name(name: str) -> None:
    with pytest.raises(SettingError, match="BROKERAGE_METRICS_ALLOWED_HOSTS"):
        ServiceSettings(metrics_allowed_hosts=(name,))
