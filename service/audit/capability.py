"""`audit`: which key was sent which records, for takedowns (decision 37); off unless BROKERAGE_AUDIT_DAYS is set."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from cluster.settings import setting
from service.audit.reads import AuditLog, WrittenAudit
from service.background import running
from service.capability import Capability
from service.sent import SentObserver
from service.services import Services
from service.settings import CapabilitySettings


@dataclass(frozen=True)
class AuditSettings(CapabilitySettings):
    """The record of which key was sent which records."""

    audit_days: int = setting(
        "BROKERAGE_AUDIT_DAYS",
        0,
        "Days for which `brokerage audit` can name the keys that were sent a record. 0: nothing is recorded.",
    )


@asynccontextmanager
async def _open(services: Services) -> AsyncIterator[None]:
    if not services.settings.of(AuditSettings).audit_days:
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


CAPABILITY = Capability("audit", settings=AuditSettings, open=_open)
