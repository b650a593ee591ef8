"""Event numbers as the service reads them, with archives that are deleted during the read."""

from typing import Any, cast

import msgspec
import pytest

from cluster.control_index import HEAD_ID, LedgerArchive, LedgerHead, Mark, Publication, PublishedExtent, archive_id
from service.errors import EngineUnavailable
from service.reso.entity_events import EventLedger, EventLedgerReader, build_ledger

TEAMS, OFFICES = "teams", "offices"
PUBLICATIONS = (Publication(TEAMS, 0, 10, 0), Publication(OFFICES, 0, 5, 10), Publication(TEAMS, 10, 12, 15))
HEAD = LedgerHead(
    end=17, reaches={TEAMS: PublishedExtent(0, 12, 0), OFFICES: PublishedExtent(0, 5, 10)}, publications=PUBLICATIONS
)


class Documents:
    """A control index of the given documents, which records the reads."""

    def __init__(self, **documents: msgspec.Struct) -> None:
        self.documents = {name.replace("_", "-"): msgspec.to_builtins(document) for name, document in documents.items()}
        self.reads: list[str] = []

    async def get_document(self, _index: str, identifier: str) -> Any:
        """Return a document as the service's engine does."""
        self.reads.append(identifier)
        return self.documents.get(identifier)

    def reader(self) -> EventLedgerReader:
        """Return a reader of these documents."""
        return EventLedgerReader(cast("Any", self), "control")


def test_a_sequence_has_a_number_and_a_number_a_sequence() -> None:
    ledger = build_ledger(HEAD, {})
    assert [ledger.event_number(TEAMS, sequence) for sequence in (0, 1, 10, 11, 12, 13)] == [None, 1, 10, 16, 17, None]
    assert [ledger.sequence_at(TEAMS, event) for event in (0, 1, 10, 12, 15, 16, 17, 99)] == [
        0,
        1,
        10,
        10,
        10,
        11,
        12,
        12,
    ]
    assert [ledger.event_number(OFFICES, sequence) for sequence in (1, 5)] == [11, 15]
    assert [ledger.sequence_at(OFFICES, event) for event in (0, 10, 11, 15, 17)] == [0, 0, 1, 5, 5]
    assert (ledger.published_sequence(TEAMS), ledger.published_sequence(OFFICES), ledger.end) == (12, 5, 17)


def test_an_unpublished_sequence_has_neither() -> None:
    ledger = EventLedger()
    assert (ledger.event_number(TEAMS, 1), ledger.sequence_at(TEAMS, 1), ledger.published_sequence(TEAMS)) == (
        None,
        0,
        0,
    )
    assert ledger.horizon({TEAMS: None, OFFICES: Mark(1, 1, 0, "", forgotten=1)}) == 0


def test_the_horizon_is_the_highest_event_whose_tombstone_may_be_gone_or_the_last_rollback() -> None:
    ledger = build_ledger(HEAD, {})
    marks = {TEAMS: Mark(1, 12, 0, "", forgotten=3), OFFICES: Mark(1, 5, 0, "", forgotten=2)}
    assert ledger.horizon(marks) == 12
    assert ledger.horizon({**marks, TEAMS: Mark(1, 20, 0, "", forgotten=19)}) == 17
    assert build_ledger(msgspec.structs.replace(HEAD, void=14), {}).horizon(marks) == 14


async def test_an_archive_is_read_once_and_the_head_each_time() -> None:
    head = msgspec.structs.replace(HEAD, publications=PUBLICATIONS[2:], archived=1)
    documents = Documents(events=head, events_000000=LedgerArchive(PUBLICATIONS[:2]))
    reader = documents.reader()
    ledger = await reader.read()
    assert await reader.read() is ledger
    assert documents.reads == [HEAD_ID, archive_id(0), HEAD_ID]
    numbers = range(1, 13)
    assert [ledger.event_number(TEAMS, number) for number in numbers] == [
        build_ledger(HEAD, {}).event_number(TEAMS, number) for number in numbers
    ]
    assert [ledger.sequence_at(TEAMS, number) for number in range(20)] == [
        build_ledger(HEAD, {}).sequence_at(TEAMS, number) for number in range(20)
    ]


async def test_an_archive_that_goes_while_it_is_read_is_an_engine_that_could_not_answer() -> None:
    documents = Documents(events=msgspec.structs.replace(HEAD, publications=PUBLICATIONS[2:], archived=1))
    reader = documents.reader()
    with pytest.raises(EngineUnavailable):
        await reader.read()
    documents.documents[HEAD_ID] = msgspec.to_builtins(HEAD)
    assert (await reader.read()).event_number(TEAMS, 12) == 17


async def test_without_a_ledger_nothing_is_published() -> None:
    assert (await Documents().reader().read()).end == 0
