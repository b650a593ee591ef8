"""What follows from the changes of a record: prices and statuses before, and the Data Dictionary's fields."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mappings import LISTING
from mappings.history import Past, Replaced, changes_of, decode_past, dictionary_values
from mappings.listing import ON_MARKET_STATUSES
from mappings.resource import ChangeGroup

PRICE, STATUS = ChangeGroup("price").number, ChangeGroup("status").number
HOUR = 3_600_000

State = tuple[int | None, str]
states = st.lists(
    st.tuples(
        st.sampled_from([None, 100, 200, 300]), st.sampled_from(["Active", "Pending", "Withdrawn", "ComingSoon"])
    ),
    min_size=1,
    max_size=60,
)


def past_of(history: Sequence[State], oldest: int = 0) -> Past:
    """Return the past of a record that had these states, one an hour from hour 1 on."""
    past = Past(1)
    for at, (before, after) in enumerate(pairwise(history), start=2):
        differing = [Replaced(at * HOUR, PRICE, {0: before[0]})] if before[0] != after[0] else []
        differing += [Replaced(at * HOUR, STATUS, {0: before[1]})] if before[1] != after[1] else []
        past = past.followed_by(differing).since(oldest)
    return past


def present(history: Sequence[State]) -> dict[str, Any]:
    return dict(zip(("ListPrice", "Status"), history[-1], strict=True))


def moves(history: Sequence[State], member: int) -> list[tuple[int, Any, Any]]:
    """Return the changes of a member, the newest first: when, before and after."""
    pairs = enumerate(pairwise(history), start=2)
    return [(at * HOUR, old[member], new[member]) for at, (old, new) in pairs if old[member] != new[member]][::-1]


@given(states)
def test_the_changes_are_those_between_all_states(history: list[State]) -> None:
    past = decode_past(past_of(history).encode())
    found = list(changes_of(LISTING, past, present(history)))
    for member, (group, name) in enumerate([("price", "ListPrice"), ("status", "Status")]):
        seen = [(one.at, one.previous[name], one.new[name]) for one in found if one.group.name == group]
        assert seen == moves(history, member)[: len(seen)]
        assert len(found) >= 50 or seen == moves(history, member)
        assert bool(seen) is bool(moves(history, member))


@given(states)
def test_the_fields_of_the_data_dictionary_follow_from_the_states(history: list[State]) -> None:
    found = dictionary_values(LISTING, past_of(history), None, present(history))
    prices, statuses = moves(history, 0), moves(history, 1)
    on = [one for one in statuses if one[1] not in ON_MARKET_STATUSES and one[2] in ON_MARKET_STATUSES]
    off = [one for one in statuses if one[1] in ON_MARKET_STATUSES and one[2] not in ON_MARKET_STATUSES]
    expected = {
        "PreviousListPrice": prices[0][1] if prices else None,
        "PriceChangeTimestamp": prices[0][0] if prices else None,
        "StatusChangeTimestamp": statuses[0][0] if statuses else None,
        "MajorChangeTimestamp": max((one[0] for one in (*prices, *statuses)), default=None),
    }
    assert {name: found.get(name) for name in expected} == expected
    if len(prices) + len(statuses) <= 50:
        assert found.get("OnMarketTimestamp") == (on[0][0] if on else None)
        assert found.get("OffMarketTimestamp") == (off[0][0] if off else None)
    first = next((price for price, _ in history if price is not None), None) if prices else None
    assert found.get("OriginalListPrice") == first


@given(states, st.integers(0, 70))
def test_what_is_forgotten_leaves_no_gap_and_no_wrong_value(history: list[State], hour: int) -> None:
    past = past_of(history, oldest=hour * HOUR)
    found = list(changes_of(LISTING, past, present(history)))
    for member, name in enumerate(("ListPrice", "Status")):
        seen = [(one.at, one.previous[name], one.new[name]) for one in found if name in one.previous]
        assert seen == moves(history, member)[: len(seen)]
        assert bool(seen) is bool(moves(history, member))
    whole = dictionary_values(LISTING, past_of(history), None, present(history))
    kept = dictionary_values(LISTING, past, None, present(history))
    last = ("OriginalListPrice", "PreviousListPrice", "PriceChangeTimestamp", "StatusChangeTimestamp")
    assert {name: kept.get(name) for name in last} == {name: whole.get(name) for name in last}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((100, "Active"), (90, "Active"), "Price Change"),
        ((100, "Active"), (100, "Pending"), "Pending"),
        ((100, "Active"), (100, "Contingent"), "Active Under Contract"),
        ((100, "Withdrawn"), (100, "Active"), "Back On Market"),
        ((100, "TempOffMarket"), (100, "Pending"), "Back On Market"),
        ((100, "ComingSoon"), (100, "Active"), "Active"),
        ((100, "Active"), (100, "TempOffMarket"), "Hold"),
        ((100, "Active"), (100, "Other"), None),
    ],
)
def test_a_major_change_has_the_name_of_the_data_dictionary(before: State, after: State, expected: str | None) -> None:
    found = dictionary_values(LISTING, past_of([before, after]), None, present([before, after]))
    assert found.get("MajorChangeType") == expected


def test_what_the_source_says_counts_and_is_not_mixed_with_what_is_derived() -> None:
    history: list[State] = [(100, "Active"), (90, "Active")]
    stated = {"PreviousListPrice": 95, "OriginalListPrice": 120}
    found = dictionary_values(LISTING, past_of(history), stated, present(history))
    assert found == {
        "OriginalListPrice": 120,
        "PreviousListPrice": 95,
        "MajorChangeType": "Price Change",
        "MajorChangeTimestamp": 2 * HOUR,
    }


def test_nothing_is_known_of_a_record_that_has_not_changed() -> None:
    assert dictionary_values(LISTING, None, None, {"ListPrice": 100, "Status": "Active"}) == {}
