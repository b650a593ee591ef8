"""`reso`: the RESO Web API below `/v1/reso` (decision 14)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiohttp.typedefs import Handler

from service.capability import Capability, CatalogEntry, Surface
from service.feed.token_check import token_check
from service.reso.entity_events import EventLedgerReader, Events
from service.reso.operations import BATCH_PATH, RESO_OPERATIONS, refuse_batch
from service.reso.protocol import RESO_ERRORS
from service.search.cached_value import CacheAges
from service.services import Services


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    reader = EventLedgerReader(services.engine, services.connection.control_index)
    services.provide(Events, Events(reader.read, CacheAges.of(services.settings)))
    yield


def _routes(surface: Surface) -> Mapping[tuple[str, str], Handler]:
    return {("POST", surface.root + BATCH_PATH): refuse_batch}


CAPABILITY = Capability(
    "reso",
    operations=RESO_OPERATIONS,
    errors=RESO_ERRORS,
    routes=_routes,
    open=_open,
    checks=(token_check("further pages and events"),),
    pages=("reso", "programs"),
    tables="service.reso.tables",
    catalog=CatalogEntry("/reso", "/reso/$metadata", "application/xml", "reso"),
)
