"""`deliver`: pushes changes to subscriptions (decision 66). The service only shows how far they are.

What sends is `brokerage deliver`, a process of its own: nothing that is imported here connects to other hosts.
"""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.capability import Capability, Check
from service.deliver.settings import DeliverSettings
from service.deliver.subscriptions import ProgressStore
from service.errors import EngineUnavailable
from service.health.checks import Finding, unknown, warning
from service.search.cached_value import CacheAges
from service.services import Services
from service.subscriptions import Subscriptions

_AGES = CacheAges(fresh_seconds=5.0, stale_seconds=10.0)
_SUBJECT = "subscriptions"


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    services.provide(Subscriptions, Subscriptions(_store(services).known, _AGES))
    yield


def _store(services: Services) -> ProgressStore:
    return ProgressStore(services.engine, services.connection.deliveries_index)


async def check_deliveries(services: Services) -> Finding | None:
    """Return what keeps subscriptions from getting their changes, None without any."""
    try:
        known = await _store(services).known()
    except EngineUnavailable as failure:
        return unknown(_SUBJECT, "cannot be checked", failure.reason)
    if not known.summaries:
        return None
    if problems := list(known.problems(time.time())):
        detail = " ".join(f"{problem.text} {problem.remedy}" for problem in problems)
        return warning(_SUBJECT, "changes are not delivered", detail)
    return Finding(subject=_SUBJECT, detail=f"{len(known.summaries)} without problems")


CAPABILITY = Capability(
    "deliver", settings=DeliverSettings, open=_open, checks=(Check(_SUBJECT, check_deliveries),), pages=("push",)
)
