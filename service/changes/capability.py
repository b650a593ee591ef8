"""`changes`: `/changes`, `/snapshot/{resource}` and `/digest/{resource}` (decision 12)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.capability import Capability
from service.changes.changes import CHANGES_OPERATIONS, ChangesPages
from service.changes.digest import DIGEST_OPERATIONS
from service.changes.sharing import ChangeNotifier
from service.changes.snapshot import SNAPSHOT_OPERATIONS
from service.services import Services


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    notifier = ChangeNotifier(services.marks)
    services.provide(ChangeNotifier, notifier)
    services.provide(ChangesPages, ChangesPages())
    try:
        yield
    finally:
        await notifier.close()


CAPABILITY = Capability(
    "changes",
    operations=(*CHANGES_OPERATIONS, *SNAPSHOT_OPERATIONS, *DIGEST_OPERATIONS),
    open=_open,
    schemas="service.changes.schemas",
    pages=("changes", "copy"),
)
