"""Update histories of listings: few moments and few forms, so that ties of every kind come up all the time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import orjson

from indexer.documents.builder import PendingDocument
from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.scan import IndexRow
from indexer.source.lines import SourceLine
from mappings import LISTING
from mappings.stored_document import feed_key
from tests.records import COMPANY_KEY, deletion, envelope

# Two that differ in the last digit that counts, and one far away.
MOMENTS = ("2026-02-01T00:00:00Z", "2026-02-01T00:00:00.000001Z", "2026-03-01T00:00:00Z")
# For this key the content of a deletion is less than that of what has vanished: it must not decide.
SECOND_KEY = "a"
_PARTNER_TIME = {"shared_partner_data_updated_at": "2026-01-01T00:00:00Z"}


@dataclass(frozen=True)
class RecordForm:
    """The content of a record; `price` is None for a deletion. `days` and `partner_time` do not count as content."""

    price: int | None
    days: int = 0
    company: str = COMPANY_KEY
    partner_time: bool = False


FORMS = (
    RecordForm(100),
    RecordForm(200),
    RecordForm(100, days=1),
    RecordForm(200, days=1),
    RecordForm(100, partner_time=True),
    RecordForm(100, company=SECOND_KEY),
    RecordForm(None),
    RecordForm(None, company=SECOND_KEY),
)
VOLATILE_FORMS = (FORMS[0], FORMS[2], FORMS[4])  # one content
_TRIED = 1_000
_intake = LineParser(LISTING, Companies({COMPANY_KEY, SECOND_KEY}))


class HistoryEvent(NamedTuple):
    """One line of a history: the record's index among the identifiers, and indices into MOMENTS and FORMS."""

    record: int
    moment: int
    form: int


def line(identifier: str, event: HistoryEvent) -> dict[str, Any]:
    form, moment = FORMS[event.form], MOMENTS[event.moment]
    if form.price is None:
        return deletion(LISTING, identifier, moment) | {"platform_company_id": form.company}
    changes = {"PlatformListingId": identifier, "ListPrice": form.price, "DaysOnMarket": form.days}
    more = _PARTNER_TIME if form.partner_time else {}
    return envelope(LISTING, changes, updated_at=moment, platform_company_id=form.company, **more)


@cache
def pending_document(identifier: str, event: HistoryEvent) -> PendingDocument:
    return _intake.parse(SourceLine("file", 1, orjson.dumps(line(identifier, event))), ParsedChunk())


def row(known: PendingDocument) -> IndexRow:
    key = feed_key(known.company, known.id)
    reason = "deleted" if known.is_tombstone else None
    return IndexRow(known.id, key, known.version, known.content, 1, 1, known.is_tombstone, reason, known.version)


def latest(identifier: str, events: Iterable[HistoryEvent]) -> HistoryEvent:
    """Return the event whose state a record ends in."""
    return max(
        events,
        key=lambda event: (pending_document(identifier, event).version, pending_document(identifier, event).content),
    )


def identifiers(prefix: str) -> Iterator[str]:
    """Yield identifiers for which no two forms of the same time and content share a version.

    Of ten bits one tie in 1,022 has no order: which of the two volatile values is kept depends on the order of arrival.
    """
    for number in range(_TRIED):
        identifier = f"{prefix}{number}"
        documents = [pending_document(identifier, HistoryEvent(0, 0, form)) for form in range(len(FORMS))]
        if len({(document.version, document.content) for document in documents}) == len(FORMS):
            yield identifier
    raise AssertionError("Hardly any identifier is left whose states are all ordered.")
