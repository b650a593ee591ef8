"""`exports`: `/exports/{resource}`, files that `brokerage index publish` writes (decision 49)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.capability import Capability
from service.exports.operations import EXPORT_OPERATIONS
from service.exports.publications import Publications
from service.exports.settings import ExportsSettings
from service.exports.stores import open_publications
from service.limits.admission import AdmissionLane, RequestKind
from service.services import Services


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    core, settings = services.settings, services.settings.of(ExportsSettings)
    services.admission.add(
        AdmissionLane(RequestKind.DOWNLOAD, settings.downloads, 0, core.queue_seconds, is_held_long=True)
    )
    if (publications := open_publications(settings)) is not None:
        services.provide(Publications, publications)
    yield


CAPABILITY = Capability(
    "exports",
    settings=ExportsSettings,
    operations=EXPORT_OPERATIONS,
    open=_open,
    schemas="service.exports.schemas",
    pages=("everything",),
)
