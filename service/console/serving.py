"""`/console` and what is below it, beside `/metrics` on the private port: it needs no key and tells of all of them."""

from __future__ import annotations

import time
from importlib import resources
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from service.app import SERVICES
from service.console.overview import Console
from service.console.siblings import PATH as WORKER
from service.health import WATCH
from service.metrics import metrics_app
from service.redaction import masked_keys
from service.site.pages import FOLDER as SITE
from service.site.serving import POLICY_WITH_SCRIPTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.resources.abc import Traversable

    from service.problems import Handler

ROOT = "/console"
DATA = f"{ROOT}/data.json"
CONSOLE = web.AppKey("console", Console)

_OURS = resources.files("service.console").joinpath("assets")
# The look is that of the documentation.
_THEIRS = SITE.joinpath("assets")
_FILES: dict[str, tuple[Traversable, str]] = {
    ROOT: (_OURS.joinpath("console.html"), "text/html"),
    f"{ROOT}/": (_OURS.joinpath("console.html"), "text/html"),
    f"{ROOT}/console.css": (_OURS.joinpath("console.css"), "text/css"),
    f"{ROOT}/console.js": (_OURS.joinpath("console.js"), "text/javascript"),
    f"{ROOT}/site.css": (_THEIRS.joinpath("site.css"), "text/css"),
    f"{ROOT}/icon.svg": (_THEIRS.joinpath("icon.svg"), "image/svg+xml"),
}


def operators_app(service: web.Application, clock: Callable[[], float] = time.time) -> web.Application:
    """Return the application of the private port: the metrics and the console of a service that has been set up.

    `clock` tells the seconds since 1970.
    """
    app = metrics_app(service[SERVICES])
    console = app[CONSOLE] = Console(service[SERVICES], service[WATCH], clock)
    app.cleanup_ctx.extend((console.history.running, console.siblings.opened))
    for path, (file, content_type) in _FILES.items():
        app.router.add_get(path, _file(file.read_bytes(), content_type))
    app.router.add_get(DATA, _data)
    app.router.add_get(WORKER, _worker)
    return app


def _file(body: bytes, content_type: str) -> Handler:
    headers = {"Content-Type": f"{content_type}; charset=utf-8", "Content-Security-Policy": POLICY_WITH_SCRIPTS}

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, headers=headers)

    return answer


async def _data(request: web.Request) -> web.Response:
    host, port = _address(request)
    return _json(await request.app[CONSOLE].overview(host, port))


async def _worker(request: web.Request) -> web.Response:
    return _json(request.app[CONSOLE].worker())


def _address(request: web.Request) -> tuple[str, int]:
    """Return the address of this machine that the request came to."""
    if request.transport is None:
        raise ConnectionResetError
    host, port, *_ = request.transport.get_extra_info("sockname")
    return host, port


def _json(told: msgspec.Struct) -> web.Response:
    # Whoever takes a key for a cursor: the cursor is told, the key is not.
    return web.Response(text=masked_keys(msgspec.json.encode(told).decode()), content_type="application/json")
