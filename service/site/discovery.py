"""How clients find the documentation: `/`, `llms.txt`, `security.txt`, the API catalog."""

import datetime as dt
from collections.abc import Iterable

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from service.capability import Surface
from service.errors import NotFound
from service.http.requests import request_origin
from service.settings import CONTACT_SETTING, contact_uri
from service.site.pages import DOCS_ROOT, Site
from service.site.reference import page_groups

API_CATALOG_PATH = "/.well-known/api-catalog"
SECURITY_PATH = "/.well-known/security.txt"
LLMS_PATH = "/llms.txt"

# RFC 9727, section 4.2, names the profile; RFC 9264 the type.
_CATALOG_TYPE = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'
# RFC 9116, section 2.5.5, recommends less than a year.
_VALID_DAYS = 180
_ABOUT = (
    "> A read-only JSON API for real-estate brokerage data: listings, sold listings, agents, offices, teams and\n"
    "> companies. Every request needs a key in the header `x-api-key`."
)
# `Host` selects the URLs in the body.
_HEADERS = {"Cache-Control": "public, max-age=300", "Vary": "Host"}


def api_catalog(origin: str, surface: Surface, site: Site) -> bytes:
    """Return the link set of the service's APIs (RFC 9727): their descriptions, documentation and status."""
    root = f"{origin}{surface.root}"
    description = [_link(f"{root}/openapi.json", "application/json")]
    api = {
        "anchor": root,
        **({"service-desc": description} if "openapi" in site.installed else {}),
        "service-doc": [_link(f"{origin}{DOCS_ROOT}", "text/html")],
        "status": [_link(f"{origin}/readyz", "application/json")],
    }
    others = [
        {
            "anchor": f"{root}{entry.path}",
            "service-desc": [_link(f"{root}{entry.description}", entry.media_type)],
            "service-doc": [_link(f"{origin}{DOCS_ROOT}/{entry.page}", "text/html")],
        }
        for capability in surface.capabilities
        if (entry := capability.catalog) is not None
    ]
    return orjson.dumps({"linkset": [api, *others]}, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def security_txt(origin: str, contact: str, today: dt.date) -> str:
    """Return the contact for reports of vulnerabilities (RFC 9116), valid for half a year from `today`."""
    expires = today + dt.timedelta(days=_VALID_DAYS)
    lines = [f"Contact: {contact_uri(contact)}", f"Expires: {expires.isoformat()}T00:00:00Z", "Preferred-Languages: en"]
    # Only an https URL may be canonical.
    if origin.startswith("https://"):
        lines.append(f"Canonical: {origin}{SECURITY_PATH}")
    return "\n".join(lines) + "\n"


def llms_txt(origin: str, api_root: str, site: Site) -> str:
    """Return what language models should read: the pages of the site as Markdown, and the OpenAPI document."""
    lines = ["# Brokerage API", "", _ABOUT]
    for group, pages in page_groups(site).items():
        lines += ["", f"## {group}", "", *(f"- [{page.title}]({origin}{page.markdown_path})" for page in pages)]
    if "openapi" in site.installed:
        lines.append(f"- [OpenAPI document]({origin}{api_root}/openapi.json): every operation, parameter and field")
    return "\n".join(lines) + "\n"


def discovery_handlers(surface: Surface, site: Site) -> dict[str, Handler]:
    contact, trusted = surface.settings.contact, surface.settings.proxies

    async def serve_catalog(request: web.Request) -> web.Response:
        body = api_catalog(request_origin(request, trusted), surface, site)
        link = f'<{API_CATALOG_PATH}>; rel="api-catalog"'
        return web.Response(body=body, headers={**_HEADERS, "Content-Type": _CATALOG_TYPE, "Link": link})

    async def serve_security(request: web.Request) -> web.Response:
        if not contact:
            raise NotFound(f"The operator has not set {CONTACT_SETTING}.")
        today = dt.datetime.now(dt.UTC).date()
        return web.Response(text=security_txt(request_origin(request, trusted), contact, today), headers=_HEADERS)

    async def serve_llms(request: web.Request) -> web.Response:
        text = llms_txt(request_origin(request, trusted), surface.root, site)
        return web.Response(text=text, content_type="text/markdown", charset="utf-8", headers=_HEADERS)

    return {API_CATALOG_PATH: serve_catalog, SECURITY_PATH: serve_security, LLMS_PATH: serve_llms}


def _link(href: str, media_type: str) -> dict[str, str]:
    return {"href": href, "type": media_type}


_INDEX_HEADERS = {
    "Cache-Control": "public, max-age=300",
    "Link": f'<{API_CATALOG_PATH}>; rel="api-catalog", <{DOCS_ROOT}>; rel="service-doc"',
    "Vary": "Accept",
}


def create_index_handler(api_root: str, paths: Iterable[str], site: Site) -> Handler:
    """Return the handler of an index: those of the paths that are below `api_root` and not of one record."""
    listed = sorted(path for path in paths if path.startswith(f"{api_root}/") and "{" not in path)
    described = {"openapi": f"{api_root}/openapi.json"} if "openapi" in site.installed else {}
    document = {"documentation": DOCS_ROOT, **described, "resources": listed}
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    async def serve_index(request: web.Request) -> web.Response:
        if request.path == "/" and accepts_html(request):
            return web.Response(status=303, headers={**_INDEX_HEADERS, "Location": DOCS_ROOT})
        return web.Response(body=body, content_type="application/json", headers=_INDEX_HEADERS)

    return serve_index


def accepts_html(request: web.Request) -> bool:
    """Return whether a request names HTML, as those of browsers do; programs accept anything, or JSON."""
    return "text/html" in request.headers.get("Accept", "").lower()
