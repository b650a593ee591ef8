"""The routes of `/console` on the private metrics port. They need no key, and list the names and ids of all keys."""

import time
from collections.abc import Callable
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from service.app import SERVICES
from service.console.metrics import create_metrics_app
from service.console.overview import OperatorConsole
from service.console.sibling_workers import WORKER_SNAPSHOT_PATH
from service.health.probes import HEALTH_MONITOR
from service.http.allowed_hosts import allowed_hosts_middleware
from service.keys.redaction import mask_keys
from service.site.page_handler import CONTENT_POLICY
from service.site.pages import SITE_FILES

CONSOLE_ROOT = "/console"
OVERVIEW_PATH = f"{CONSOLE_ROOT}/data.json"
OPERATOR_CONSOLE = web.AppKey("console", OperatorConsole)

_ASSETS = resources.files("service.console").joinpath("assets")
_CHART_LIBRARY = resources.files("service.console").joinpath("uplot")
# Shares the style of the documentation.
_SITE_ASSETS = SITE_FILES.joinpath("assets")
_FILES: dict[str, tuple[Traversable, str]] = {
    CONSOLE_ROOT: (_ASSETS.joinpath("console.html"), "text/html"),
    f"{CONSOLE_ROOT}/": (_ASSETS.joinpath("console.html"), "text/html"),
    f"{CONSOLE_ROOT}/console.css": (_ASSETS.joinpath("console.css"), "text/css"),
    f"{CONSOLE_ROOT}/console.js": (_ASSETS.joinpath("console.js"), "text/javascript"),
    f"{CONSOLE_ROOT}/charts.js": (_ASSETS.joinpath("charts.js"), "text/javascript"),
    f"{CONSOLE_ROOT}/uplot.js": (_CHART_LIBRARY.joinpath("uPlot.iife.min.js"), "text/javascript"),
    f"{CONSOLE_ROOT}/uplot.css": (_CHART_LIBRARY.joinpath("uPlot.min.css"), "text/css"),
    f"{CONSOLE_ROOT}/site.css": (_SITE_ASSETS.joinpath("site.css"), "text/css"),
    f"{CONSOLE_ROOT}/icon.svg": (_SITE_ASSETS.joinpath("icon.svg"), "image/svg+xml"),
}


def create_operators_app(service: web.Application, clock: Callable[[], float] = time.time) -> web.Application:
    """Return the application of the private port: metrics and console of a service that has been set up.

    `clock` returns seconds since 1970.
    """
    app = create_metrics_app(service[SERVICES])
    app.middlewares.append(allowed_hosts_middleware(service[SERVICES].settings.metrics_allowed_hosts))
    console = app[OPERATOR_CONSOLE] = OperatorConsole(service[SERVICES], service[HEALTH_MONITOR], clock)
    app.cleanup_ctx.extend((console.history.lifespan, console.siblings.lifespan))
    for path, (file, content_type) in _FILES.items():
        app.router.add_get(path, _file_handler(file.read_bytes(), content_type))
    app.router.add_get(OVERVIEW_PATH, _overview)
    app.router.add_get(WORKER_SNAPSHOT_PATH, _worker_snapshot)
    return app


def _file_handler(body: bytes, content_type: str) -> Handler:
    headers = {"Content-Type": f"{content_type}; charset=utf-8", "Content-Security-Policy": CONTENT_POLICY}

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=body, headers=headers)

    return handle


async def _overview(request: web.Request) -> web.Response:
    host, port = _address(request)
    return _json(await request.app[OPERATOR_CONSOLE].fetch_overview(host, port))


async def _worker_snapshot(request: web.Request) -> web.Response:
    return _json(request.app[OPERATOR_CONSOLE].snapshot())


def _address(request: web.Request) -> tuple[str, int]:
    """Return the local address and port that received the request."""
    if request.transport is None:
        raise ConnectionResetError
    host, port, *_ = request.transport.get_extra_info("sockname")
    return host, port


def _json(body: msgspec.Struct) -> web.Response:
    # Masked, because a client may have sent a key as a cursor.
    return web.Response(text=mask_keys(msgspec.json.encode(body).decode()), content_type="application/json")
