"""`site`: the documentation for partners under `/docs`, and how programs find it."""

from collections.abc import Mapping

from aiohttp.typedefs import Handler

from service.capability import Capability, Surface
from service.site.discovery import create_index_handler, discovery_handlers
from service.site.handler import SITE_PATHS, SiteHandler
from service.site.pages import Site


def _routes(surface: Surface) -> Mapping[tuple[str, str], Handler]:
    site = Site.of(surface)
    index = create_index_handler(surface.root, surface.paths, site)
    handlers = {
        **dict.fromkeys(("/", surface.root), index),
        **discovery_handlers(surface, site),
        **dict.fromkeys(SITE_PATHS, SiteHandler(site).respond),
    }
    return {("GET", path): handler for path, handler in handlers.items()}


CAPABILITY = Capability("site", routes=_routes)
