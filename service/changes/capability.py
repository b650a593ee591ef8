"""`changes`: `/changes`, `/snapshot/{resource}` and `/digest/{resource}` (decision 12)."""

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cluster.settings import setting
from service.capability import Capability
from service.changes.changes import CHANGES_OPERATIONS, ChangesPages
from service.changes.digest import DIGEST_OPERATIONS
from service.changes.sharing import ChangeNotifier
from service.changes.snapshot import SNAPSHOT_OPERATIONS
from service.feed.token_check import token_check
from service.limits.admission import AdmissionControl, ConcurrencyLimit, RequestKind
from service.search.pages import Snapshots
from service.services import Services
from service.settings import CapabilitySettings, ServiceSettings


@dataclass(frozen=True)
class ChangesSettings(CapabilitySettings):
    """Changes and snapshots: how many requests for them each worker handles."""

    waiting: int = setting(
        "BROKERAGE_WAITING",
        5000,
        "Requests for changes that each worker handles at a time; most of them wait for a change. Further ones are "
        "refused. Each needs an open file.",
    )
    snapshots: int = setting("BROKERAGE_SNAPSHOTS", 4, "Snapshots that each worker streams at a time.")

    @property
    def open_files(self) -> int:
        """Each request that waits has a connection."""
        return self.waiting


def _add_limits(admission: AdmissionControl, core: ServiceSettings) -> None:
    """Add limits for requests that may wait, for those of them that a change has woken, and for snapshots.

    A request for changes does no work while it waits, and takes the slot of a page to read them, or one of the limit of
    long polls if it waits for changes: a change wakes thousands of them at once, which are served one after the other
    and not refused. A snapshot is a series of searches that takes minutes: few run at a time, and none is queued.
    """
    settings, patience = core.of(ChangesSettings), core.queue_seconds
    waiting, polls = settings.waiting, -(-core.concurrency // 2)
    admission.add(ConcurrencyLimit(RequestKind.CHANGES, waiting, 0, patience, is_held_long=True))
    admission.add(ConcurrencyLimit(RequestKind.LONG_POLL, polls, waiting, math.inf))
    admission.add(ConcurrencyLimit(RequestKind.SNAPSHOT, settings.snapshots, 0, patience, is_held_long=True))


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    _add_limits(services.limits.admission, services.settings)
    notifier = ChangeNotifier(services.marks)
    services.provide(ChangeNotifier, notifier)
    services.provide(ChangesPages, ChangesPages())
    services.provide(Snapshots, Snapshots())
    try:
        yield
    finally:
        await notifier.close()


CAPABILITY = Capability(
    "changes",
    settings=ChangesSettings,
    operations=(*CHANGES_OPERATIONS, *SNAPSHOT_OPERATIONS, *DIGEST_OPERATIONS),
    open=_open,
    checks=(token_check("changes and snapshots"),),
    schemas="service.changes.schemas",
    pages=("changes", "copy", "databases"),
    tables="service.changes.tables",
)
