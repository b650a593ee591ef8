"""The oracle of changing records: it accepts exactly the states that may have been visible."""

import copy
import time
from typing import Any

import pytest

from sample import write_source
from tests.contract.world import Envelope
from tests.simulation.history import ChangingOracle, RecordHistory
from tests.simulation.oracle import ExpectedFeeds, FeedWalkSpec, ReceivedPage, WalkProgress, shown

WALK = FeedWalkSpec(company="summit-crest", market_status="on-market", page_size=10)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> ExpectedFeeds:
    folder = tmp_path_factory.mktemp("changing") / "source"
    write_source(folder, 120)
    return ExpectedFeeds.of(folder)


@pytest.fixture
def judge(truth: ExpectedFeeds) -> ChangingOracle:
    """An oracle without tolerance for former states."""
    history = RecordHistory.of(truth.source["listings"])
    history.lingers = 0.0
    return ChangingOracle([truth], histories={"listings": history})


def _changed(truth: ExpectedFeeds, name: str, **changes: Any) -> Envelope:
    [envelope] = [one for one in truth.source["listings"] if one["record"]["PlatformListingId"] == name]
    made = copy.deepcopy(envelope)
    made["record"] |= changes
    return made


def _page(envelopes: list[Envelope], *, final: bool, asked_at: float) -> ReceivedPage:
    records = [shown(WALK, one) for one in envelopes]
    return ReceivedPage(records, [record["PlatformListingId"] for record in records], final, asked_at)


def _wrong(
    judge: ChangingOracle, envelopes: list[Envelope], *, final: bool = True, asked_at: float | None = None
) -> int:
    """Return the number of deviations of a page that is requested now."""
    before = judge.wrong
    judge.page(WALK, None, _page(envelopes, final=final, asked_at=time.monotonic() if asked_at is None else asked_at))
    return judge.wrong - before


def _first(truth: ExpectedFeeds, count: int) -> list[Envelope]:
    return [_changed(truth, name) for name in truth.expected(WALK).ids[:count]]


def test_a_correct_page_is_accepted_and_wrong_ones_are_not(truth: ExpectedFeeds, judge: ChangingOracle) -> None:
    first = _first(truth, 10)
    foreign = next(one for one in truth.source["listings"] if not truth.matches(WALK, one))
    assert _wrong(judge, first, final=False) == 0
    assert _wrong(judge, first[:9], final=False) == 1  # not full and not the last
    assert _wrong(judge, [*first, first[9]]) == 1
    assert _wrong(judge, [first[1], first[0]]) == 1
    assert _wrong(judge, [foreign]) == 1
    assert _wrong(judge, [_changed(truth, truth.expected(WALK).ids[0], ListPrice=1)]) == 1


def test_both_states_are_accepted_during_a_change_and_only_the_new_one_afterwards(
    truth: ExpectedFeeds, judge: ChangingOracle
) -> None:
    history, name = judge.histories["listings"], truth.expected(WALK).ids[0]
    old, new = _changed(truth, name), _changed(truth, name, ListPrice=1)
    began = time.monotonic()
    assert _wrong(judge, [new]) == 1
    history.change({name: new})
    assert (_wrong(judge, [old]), _wrong(judge, [new])) == (0, 0)
    history.settled([name])
    assert (_wrong(judge, [old]), _wrong(judge, [new])) == (1, 0)
    assert _wrong(judge, [old], asked_at=began) == 0


def test_a_deleted_record_is_wrong_once_it_is_gone(truth: ExpectedFeeds, judge: ChangingOracle) -> None:
    history, name = judge.histories["listings"], truth.expected(WALK).ids[0]
    history.change({name: None})
    assert _wrong(judge, [_changed(truth, name)]) == 0
    history.settled([name])
    assert _wrong(judge, [_changed(truth, name)]) == 1


def _lost(judge: ChangingOracle, ids: list[str], began: float) -> int:
    before = judge.wrong
    judge.whole(WALK, WalkProgress(began, ids))
    return judge.wrong - before


def test_a_walk_may_lack_what_changed_meanwhile_and_nothing_else(truth: ExpectedFeeds, judge: ChangingOracle) -> None:
    history, ids = judge.histories["listings"], truth.expected(WALK).ids
    began = time.monotonic()
    assert _lost(judge, ids, began) == 0
    assert _lost(judge, ids[1:], began) == 1
    assert _lost(judge, [*ids, ids[0]], began) == 1
    new = _changed(truth, ids[-1], PlatformListingId=f"{ids[-1]}-1")
    history.change({ids[0]: None, f"{ids[-1]}-1": new})
    meanwhile = time.monotonic()
    assert [_lost(judge, ids_, meanwhile) for ids_ in (ids, [*ids[1:], f"{ids[-1]}-1"])] == [0, 0]
    history.settled([ids[0], f"{ids[-1]}-1"])
    assert [_lost(judge, ids_, began) for ids_ in (ids, ids[1:], [*ids, f"{ids[-1]}-1"], ids[2:])] == [0, 0, 0, 1]
    later = time.monotonic()
    assert [_lost(judge, ids_, later) for ids_ in ([*ids[1:], f"{ids[-1]}-1"], ids[1:])] == [0, 1]
