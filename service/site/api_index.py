"""`/` and `/v1`: where the documentation and the resources are. `/` leads a browser to the documentation."""

from collections.abc import Iterable

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from service.site.discovery import API_CATALOG_PATH
from service.site.pages import DOCS_ROOT

_HEADERS = {
    "Cache-Control": "public, max-age=300",
    "Link": f'<{API_CATALOG_PATH}>; rel="api-catalog", <{DOCS_ROOT}>; rel="service-doc"',
    "Vary": "Accept",
}


def create_index_handler(api_root: str, paths: Iterable[str]) -> Handler:
    """Return the handler of an index: those of the paths that are below `api_root` and not of one record."""
    listed = sorted(path for path in paths if path.startswith(f"{api_root}/") and "{" not in path)
    document = {"documentation": DOCS_ROOT, "openapi": f"{api_root}/openapi.json", "resources": listed}
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    async def serve_index(request: web.Request) -> web.Response:
        if request.path == "/" and _is_browser(request):
            return web.Response(status=303, headers={**_HEADERS, "Location": DOCS_ROOT})
        return web.Response(body=body, content_type="application/json", headers=_HEADERS)

    return serve_index


def _is_browser(request: web.Request) -> bool:
    """Return whether a request names HTML; programs accept anything, or JSON."""
    return "text/html" in request.headers.get("Accept", "").lower()
