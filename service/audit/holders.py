"""Who holds a record: what each key was sent of it, folded into one answer."""

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Any

from service.audit.audit_rows import ABSENT, EVENT, LIVE, SentPage
from service.audit.audit_store import SentRecord
from service.feed.json_lines import iso_timestamp


@dataclass(frozen=True)
class CurrentRecord:
    """A record as it is now; `state` is live, deleted, or unknown if the index has no trace of it."""

    resource: str
    identifier: str
    state: str = "unknown"
    sequence: int = 0

    @property
    def is_deleted(self) -> bool:
        """Whether it left the index, or never was in it."""
        return self.state != LIVE


@dataclass
class Holder:
    """A key that was sent a record. Times are milliseconds since 1970.

    `sent` is when it was sent last, `confirmed` when a 304 last confirmed that it has it, `removed` when it
    last read why it left the copy, `event` when it last read its EntityEvent, `absent` when it last got 404 for it.
    """

    key_id: str
    resource: str
    times: int = 0
    sent: SentPage | None = None
    confirmed: SentPage | None = None
    removed: SentPage | None = None
    reason: str = ""
    event: SentPage | None = None
    absent: SentPage | None = None

    def add(self, record: SentRecord) -> None:
        """Add one time that the key was sent the record."""
        page = record.page
        if record.state == EVENT:
            self.event = _later(self.event, page)
        elif record.state == ABSENT:
            self.absent = _later(self.absent, page)
        elif record.state != LIVE:
            self.removed = _later(self.removed, page)
            self.reason = record.state if self.removed is page else self.reason
        elif record.unchanged:
            self.confirmed = _later(self.confirmed, page)
        else:
            self.times += 1
            self.sent = _later(self.sent, page)

    @property
    def held(self) -> SentPage | None:
        """The last proof that the key has the record: it was sent it, or a 304 confirmed it."""
        return max(filter(None, (self.sent, self.confirmed)), default=None)

    def removal_read(self, now: CurrentRecord) -> tuple[SentPage, str] | None:
        """Return when and how the key learned, after it was last sent the record, that it is gone; None if not."""
        held_at = self.held.at if self.held else 0
        event = self.event if now.is_deleted and self.event and self.event.sequence >= now.sequence else None
        ways = ((self.removed, self.reason), (event, EVENT), (self.absent, ABSENT))
        later = [(page, way) for page, way in ways if page is not None and page.at > held_at]
        return min(later, default=None)

    def as_json(self, now: CurrentRecord) -> dict[str, Any]:
        """Return what is known of the key. `state` is live, or how it learned that the record is gone."""
        removal, held = self.removal_read(now), self.held
        return {
            "key_id": self.key_id,
            "resource": self.resource,
            "state": removal[1] if removal else LIVE,
            "last_sent": iso_time(self.sent),
            "last_confirmed": iso_time(self.confirmed),
            "times_sent": self.times,
            "sequence": held and held.sequence,
            "is_current": bool(held and not removal and not now.is_deleted and held.sequence >= now.sequence),
            "removal_read": iso_time(removal and removal[0]),
        }


def iso_time(page: SentPage | None) -> str | None:
    """Return when a page was sent as ISO 8601 in UTC."""
    return iso_timestamp(page.at).decode() if page else None


def _later(known: SentPage | None, page: SentPage) -> SentPage:
    return page if known is None or page > known else known


async def find_holders(sent: AsyncIterable[SentRecord]) -> list[Holder]:
    """Return the keys that were sent a record, the last one first; those that only asked in vain are left out."""
    holders: dict[tuple[str, str], Holder] = {}
    async for record in sent:
        key = (record.key_id, record.resource)
        holders.setdefault(key, Holder(*key)).add(record)
    found = [holder for holder in holders.values() if holder.held or holder.removed]
    return sorted(found, key=lambda holder: -(holder.held or holder.removed or SentPage(0, 0)).at)
