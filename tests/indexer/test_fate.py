"""The order of the states of a record: total, with the source's time first, and the same from wherever one comes."""

from __future__ import annotations

import datetime as dt
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.documents import tombstone
from indexer.fate import Fate, fate, newest
from mappings.document import Reason
from tests.indexer.histories import FORMS, MOMENTS, SECOND_KEY, VOLATILE_FORMS, Event, draft, identifiers, latest, row
from tests.records import COMPANY_KEY

if TYPE_CHECKING:
    from random import Random

    from indexer.documents import Draft

(ONE,) = islice(identifiers("fate-"), 1)
events = st.builds(Event, st.just(0), st.integers(0, len(MOMENTS) - 1), st.integers(0, len(FORMS) - 1))
drafts = events.map(lambda event: draft(ONE, event))
histories = st.lists(drafts, min_size=1, max_size=12)


def state(of: Draft) -> bytes:
    """Return everything that is stored of a draft."""
    return of.source(0, 0)


def is_over(draft: Draft, other: Draft) -> bool:
    """Whether a draft is written where the other is known."""
    return fate(draft, row(other)) is not Fate.STALE


@given(drafts, drafts)
def test_of_two_states_exactly_one_is_over_the_other(one: Draft, other: Draft) -> None:
    assert (is_over(one, other) and is_over(other, one)) is (state(one) == state(other))
    assert is_over(one, other) or is_over(other, one)


@given(drafts, drafts, drafts)
def test_what_is_over_a_state_is_over_all_below_it(high: Draft, middle: Draft, low: Draft) -> None:
    if is_over(high, middle) and is_over(middle, low):
        assert is_over(high, low)


@given(histories, st.randoms(use_true_random=False))
def test_the_newest_is_the_same_in_any_order_and_however_often_it_comes(history: list[Draft], random: Random) -> None:
    shuffled = [*history, *random.choices(history, k=3)]
    random.shuffle(shuffled)
    assert state(newest(shuffled)[ONE]) == state(newest(history)[ONE])


@given(histories)
def test_one_by_one_the_same_state_is_reached_as_at_once(history: list[Draft]) -> None:
    known = history[0]
    for each in history:
        known = each if is_over(each, known) else known
    assert state(known) == state(newest(history)[ONE])


@given(st.lists(events, min_size=1, max_size=12))
def test_the_latest_time_wins_and_at_that_time_a_deletion(history: list[Event]) -> None:
    last = max(event.moment for event in history)
    winner = newest([draft(ONE, event) for event in history])[ONE]
    assert winner.stamped_at == int(dt.datetime.fromisoformat(MOMENTS[last]).timestamp() * 1000)
    assert winner.version >> 10 == draft(ONE, Event(0, last, 0)).version >> 10
    assert winner.is_tombstone is any(FORMS[each.form].price is None for each in history if each.moment == last)
    assert state(winner) == state(draft(ONE, latest(ONE, history)))


def test_forms_that_differ_in_volatile_members_alone_are_ordered_and_no_change() -> None:
    forms = [draft(ONE, Event(0, 0, FORMS.index(form))) for form in VOLATILE_FORMS]
    assert len({each.content for each in forms}) == 1
    low, *_, high = sorted(forms, key=lambda each: each.version)
    assert fate(high, row(low)) is Fate.UNCHANGED
    assert fate(low, row(high)) is Fate.STALE


@pytest.mark.parametrize("company", [COMPANY_KEY, SECOND_KEY])
@pytest.mark.parametrize("deleting", [COMPANY_KEY, SECOND_KEY])
def test_what_a_source_lacks_is_over_every_record_of_its_moment_and_under_a_deletion(
    company: str, deleting: str
) -> None:
    """Else what is deleted at the time of its last update would be back with the next older full source."""
    moment = draft(ONE, Event(0, 0, 0)).version >> 10
    vanished = tombstone(ONE, company, moment, Reason.VANISHED)
    deleted = tombstone(ONE, deleting, moment, Reason.DELETED)
    assert is_over(deleted, vanished)
    assert not is_over(vanished, deleted)
    living = [draft(ONE, Event(0, 0, FORMS.index(form))) for form in FORMS if form.price is not None]
    assert [each for each in living if is_over(each, vanished)] == []
