"""The order of the states of a record: total, by the source's time first, and independent of the path of arrival."""

import datetime as dt
from itertools import islice, permutations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from indexer.changes.stamps import ChangeKind, change_kind, change_kind_in_rebuild, change_of, newest_by_id
from indexer.documents.builder import PendingDocument, tombstone_document
from mappings.stored_document import TombstoneReason
from tests.indexer.changes.record_histories import (
    FORMS,
    MOMENTS,
    SECOND_KEY,
    VOLATILE_FORMS,
    HistoryEvent,
    identifiers,
    latest,
    pending_document,
    row,
)
from tests.records import COMPANY_KEY

(ONE,) = islice(identifiers("fate-"), 1)
events = st.builds(HistoryEvent, st.just(0), st.integers(0, len(MOMENTS) - 1), st.integers(0, len(FORMS) - 1))
documents = events.map(lambda event: pending_document(ONE, event))
histories = st.lists(documents, min_size=1, max_size=12)


def state(of: PendingDocument) -> bytes:
    return of.stamped_source(0, 0)


def is_over(pending_document: PendingDocument, other: PendingDocument) -> bool:
    return change_kind(pending_document, row(other)) is not ChangeKind.STALE


@given(documents, documents)
def test_of_two_states_exactly_one_is_over_the_other(one: PendingDocument, other: PendingDocument) -> None:
    assert (is_over(one, other) and is_over(other, one)) is (state(one) == state(other))
    assert is_over(one, other) or is_over(other, one)


@given(documents, documents, documents)
def test_what_is_over_a_state_is_over_all_below_it(
    high: PendingDocument, middle: PendingDocument, low: PendingDocument
) -> None:
    if is_over(high, middle) and is_over(middle, low):
        assert is_over(high, low)


@given(histories, st.randoms(use_true_random=False))
def test_the_newest_is_the_same_in_any_order_and_however_often_it_comes(
    history: list[PendingDocument], random: Random
) -> None:
    shuffled = [*history, *random.choices(history, k=3)]
    random.shuffle(shuffled)
    assert state(newest_by_id(shuffled)[ONE]) == state(newest_by_id(history)[ONE])


@given(histories)
def test_one_by_one_the_same_state_is_reached_as_at_once(history: list[PendingDocument]) -> None:
    known = history[0]
    for document in history:
        known = document if is_over(document, known) else known
    assert state(known) == state(newest_by_id(history)[ONE])


@given(st.lists(events, min_size=1, max_size=12))
def test_the_latest_time_wins_and_at_that_time_a_deletion(history: list[HistoryEvent]) -> None:
    last = max(event.moment for event in history)
    winner = newest_by_id([pending_document(ONE, event) for event in history])[ONE]
    assert winner.updated_milliseconds == int(dt.datetime.fromisoformat(MOMENTS[last]).timestamp() * 1000)
    assert winner.version >> 10 == pending_document(ONE, HistoryEvent(0, last, 0)).version >> 10
    assert winner.is_tombstone is any(FORMS[event.form].price is None for event in history if event.moment == last)
    assert state(winner) == state(pending_document(ONE, latest(ONE, history)))


def test_forms_that_differ_in_volatile_members_alone_are_ordered_and_no_change() -> None:
    forms = [pending_document(ONE, HistoryEvent(0, 0, FORMS.index(form))) for form in VOLATILE_FORMS]
    assert len({document.content for document in forms}) == 1
    low, *_, high = sorted(forms, key=lambda document: document.version)
    assert change_kind(high, row(low)) is ChangeKind.UNCHANGED
    assert change_kind(low, row(high)) is ChangeKind.STALE


@pytest.mark.parametrize("company", [COMPANY_KEY, SECOND_KEY])
def test_every_state_of_its_moment_is_over_an_absence_and_no_earlier_one(company: str) -> None:
    """The tombstone of a record that a full source lacked has the time of the record, and none of its own."""
    moment = pending_document(ONE, HistoryEvent(0, 1, 0)).version >> 10
    vanished = tombstone_document(ONE, company, moment, TombstoneReason.VANISHED)
    absent = structs.replace(row(vanished), reason="vanished")
    same, earlier = ([pending_document(ONE, HistoryEvent(0, at, form)) for form in range(len(FORMS))] for at in (1, 0))
    assert {change_kind(document, absent) for document in same} == {ChangeKind.CHANGED}
    assert {change_kind(document, absent) for document in earlier} == {ChangeKind.STALE}
    assert {change_kind_in_rebuild(document, absent) for document in [*same, *earlier]} == {ChangeKind.CHANGED}


@given(documents, documents)
def test_a_change_is_of_the_state_that_the_index_has(one: PendingDocument, other: PendingDocument) -> None:
    change = change_of(one, row(other))
    assert (change.document, change.kind, change.known) == (one, change_kind(one, row(other)), row(other))
    assert change.is_stored is (state(one) == state(other))
    assert change_of(one, None) == (one, ChangeKind.CHANGED, None)
    assert not change_of(one, None).is_stored


@given(documents, documents)
def test_a_document_without_a_time_is_never_older_than_the_live_record(
    one: PendingDocument, other: PendingDocument
) -> None:
    def redated(microseconds: int) -> PendingDocument:
        return structs.replace(one, version=microseconds * 1024 + one.version % 1024)

    live, change = row(other), change_of(structs.replace(one, redated=redated), row(other))
    assert change.kind is not ChangeKind.STALE or live.deleted
    if one.content == other.content and not live.deleted:
        assert change.kind is ChangeKind.UNCHANGED
        assert 0 <= (change.document.version >> 10) - (live.version >> 10) <= 1


@pytest.mark.parametrize(("live", "sent"), [*permutations((0, 2, 4), 2)])
def test_members_that_are_not_content_change_without_a_time_too(live: int, sent: int) -> None:
    """Whichever of two states with one content and one time ranks higher."""
    known, document = (pending_document(ONE, HistoryEvent(0, 0, form)) for form in (live, sent))
    assert known.content == document.content

    def redated(microseconds: int) -> PendingDocument:
        return structs.replace(document, version=microseconds * 1024 + document.version % 1024)

    change = change_of(structs.replace(document, redated=redated), row(known))
    assert (change.kind, change.document.record) == (ChangeKind.UNCHANGED, document.record)
    assert change.document.version > known.version
