"""`exports`: `/exports/{resource}`, files that `brokerage index publish` writes (decision 49)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.capability import Capability
from service.exports.operations import EXPORT_OPERATIONS
from service.exports.publications import Publications
from service.exports.stores import open_publications
from service.services import Services


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    if (publications := open_publications(services.settings)) is not None:
        services.provide(Publications, publications)
    yield


CAPABILITY = Capability(
    "exports", operations=EXPORT_OPERATIONS, open=_open, schemas="service.exports.schemas", pages=("everything",)
)
