"""`exports`: `/exports/{resource}`, files that `brokerage index publish` writes (decision 49)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.capability import Capability, Check
from service.errors import EngineUnavailable
from service.exports.operations import EXPORT_OPERATIONS
from service.exports.publications import Publications
from service.exports.settings import ExportsSettings
from service.exports.stores import open_publications
from service.feed.token_check import token_check
from service.health.checks import Finding, warning
from service.limits.admission import ConcurrencyLimit, RequestKind
from service.services import Services


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    core, settings = services.settings, services.settings.of(ExportsSettings)
    services.limits.admission.add(
        ConcurrencyLimit(RequestKind.DOWNLOAD, settings.downloads, 0, core.queue_seconds, is_held_long=True)
    )
    if (publications := open_publications(settings)) is not None:
        services.provide(Publications, publications)
    yield


_PUBLISHED_FILES = "published files"


async def check_files(services: Services) -> Finding:
    """Return whether BROKERAGE_EXPORTS can be read. A failure is a warning: consumers take snapshots."""
    settings = services.settings.of(ExportsSettings)
    publications = open_publications(settings)
    if publications is None:
        return Finding(subject=_PUBLISHED_FILES, detail="off (BROKERAGE_EXPORTS)")
    try:
        await publications.storage.check()
    except OSError as error:
        return _unreadable_files(f"{settings.exports}: {error.strerror or error}.")
    except EngineUnavailable as error:
        return _unreadable_files(error.reason)
    return Finding(subject=_PUBLISHED_FILES, detail=f"{settings.exports} can be read")


def _unreadable_files(detail: str) -> Finding:
    return warning(
        _PUBLISHED_FILES,
        "cannot be read",
        detail,
        "Is BROKERAGE_EXPORTS right, may the service's user read it, and has `brokerage index publish` run? See "
        "docs/operating/publish.md.",
    )


CAPABILITY = Capability(
    "exports",
    settings=ExportsSettings,
    operations=EXPORT_OPERATIONS,
    open=_open,
    schemas="service.exports.schemas",
    checks=(
        token_check("published files"),
        Check(_PUBLISHED_FILES, check_files, needs_elasticsearch=False),
    ),
    pages=("everything",),
)
