"""Update histories of listings: few moments and few forms, so that ties of every kind come up all the time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from indexer.companies import Companies
from indexer.intake import Chunk, Intake
from indexer.scan import Row
from indexer.source import Line
from mappings import LISTING
from mappings.document import feed_key
from tests.records import COMPANY_KEY, deletion, envelope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from indexer.documents import Draft

# Two that differ in the last digit that counts, and one far away.
MOMENTS = ("2026-02-01T00:00:00Z", "2026-02-01T00:00:00.000001Z", "2026-03-01T00:00:00Z")
# For this key the content of a deletion is less than that of what has vanished: it must not decide.
SECOND_KEY = "a"
_PARTNER_TIME = {"shared_partner_data_updated_at": "2026-01-01T00:00:00Z"}


@dataclass(frozen=True)
class Form:
    """What a record can look like; `price` is None for a deletion. `days` and `partner_time` are no content."""

    price: int | None
    days: int = 0
    company: str = COMPANY_KEY
    partner_time: bool = False


FORMS = (
    Form(100),
    Form(200),
    Form(100, days=1),
    Form(200, days=1),
    Form(100, partner_time=True),
    Form(100, company=SECOND_KEY),
    Form(None),
    Form(None, company=SECOND_KEY),
)
VOLATILE_FORMS = (FORMS[0], FORMS[2], FORMS[4])  # one content
_TRIED = 1_000
_intake = Intake(LISTING, Companies({COMPANY_KEY, SECOND_KEY}))


class Event(NamedTuple):
    """One line of a history: the record's place among the identifiers, and places in MOMENTS and FORMS."""

    record: int
    moment: int
    form: int


def line(identifier: str, event: Event) -> dict[str, Any]:
    """Return the envelope that tells of an event."""
    form, moment = FORMS[event.form], MOMENTS[event.moment]
    if form.price is None:
        return deletion(LISTING, identifier, moment) | {"platform_company_id": form.company}
    changes = {"PlatformListingId": identifier, "ListPrice": form.price, "DaysOnMarket": form.days}
    more = _PARTNER_TIME if form.partner_time else {}
    return envelope(LISTING, changes, updated_at=moment, platform_company_id=form.company, **more)


@cache
def draft(identifier: str, event: Event) -> Draft:
    """Return what the intake makes of an event."""
    return _intake.accept(Line("file", 1, orjson.dumps(line(identifier, event))), Chunk())


def row(known: Draft) -> Row:
    """Return what an index keeps of a draft under the stamp 1, 1."""
    key = feed_key(known.company, known.id)
    reason = "deleted" if known.is_tombstone else None
    return Row(known.id, key, known.version, known.content, 1, 1, known.is_tombstone, reason)


def latest(identifier: str, events: Iterable[Event]) -> Event:
    """Return the event whose state a record ends in."""
    return max(events, key=lambda event: (draft(identifier, event).version, draft(identifier, event).content))


def identifiers(prefix: str) -> Iterator[str]:
    """Yield identifiers, but none for which two forms of the same moment and content share a version.

    Of ten bits one tie in 1,022 has no order: which of the two volatile values stays is left to the order of arrival.
    """
    for number in range(_TRIED):
        identifier = f"{prefix}{number}"
        drafts = [draft(identifier, Event(0, 0, form)) for form in range(len(FORMS))]
        if len({(each.version, each.content) for each in drafts}) == len(FORMS):
            yield identifier
    raise AssertionError("Hardly any identifier is left whose states are all ordered.")
