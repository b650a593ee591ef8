"""`audit`: which key was sent which records, for takedowns (decision 37); off unless BROKERAGE_AUDIT_DAYS is set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.audit.reads import AuditLog, WrittenAudit
from service.background import running
from service.capability import Capability
from service.request_context import SentObserver
from service.services import Services


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    if not services.settings.audit_days:
        yield
        return
    audit = WrittenAudit(AuditLog(), services.engine, services.connection.audit_index)
    services.provide(SentObserver, audit)
    services.provide(WrittenAudit, audit)
    try:
        async with running(audit.run):
            yield
    finally:
        await audit.close()


CAPABILITY = Capability("audit", open=_open)
