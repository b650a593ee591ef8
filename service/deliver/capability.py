"""`deliver`: pushes changes to subscriptions (decision 66). The service only shows how far they are.

What sends is `brokerage deliver`, a process of its own: nothing that is imported here connects to other hosts.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.capability import Capability
from service.deliver.settings import DeliverSettings
from service.deliver.subscriptions import ProgressStore
from service.search.cached_value import CacheAges
from service.services import Services
from service.subscriptions import Subscriptions

_AGES = CacheAges(fresh_seconds=5.0, stale_seconds=10.0)


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    store = ProgressStore(services.engine, services.connection.deliveries_index)
    services.provide(Subscriptions, Subscriptions(store.known, _AGES))
    yield


CAPABILITY = Capability("deliver", settings=DeliverSettings, open=_open, pages=("push",))
