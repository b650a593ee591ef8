"""`openapi`: the OpenAPI document of the contract and of what is installed, `/v1/openapi.json`."""

from collections.abc import Mapping

from aiohttp.typedefs import Handler

from service.capability import Capability, Surface
from service.openapi.document import create_document_handler


def _routes(surface: Surface) -> Mapping[tuple[str, str], Handler]:
    handler = create_document_handler(surface.capabilities, surface.settings.contact)
    return {("GET", f"{surface.root}/openapi.json"): handler}


CAPABILITY = Capability("openapi", routes=_routes, document="service.openapi.document", pages=("reference", "clients"))
