"""The oracles detect every kind of wrong page, of data that rest and of records that change."""

import copy
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from sample import write_source
from tests.contract.world import Envelope
from tests.simulation.history import ChangingOracle, RecordHistory
from tests.simulation.oracle import (
    ExpectedFeeds,
    FeedWalkSpec,
    PageOracle,
    ReceivedPage,
    WalkProgress,
    mixed_walks,
    shown,
)

SIZE = 10
WALK = FeedWalkSpec(company="summit-crest", market_status="all", page_size=SIZE)
CHANGING = FeedWalkSpec(company="summit-crest", market_status="on-market", page_size=SIZE)


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> ExpectedFeeds:
    """The records of a small source."""
    folder: Path = tmp_path_factory.mktemp("judged") / "source"
    write_source(folder, 120)
    return ExpectedFeeds.of(folder)


def _answer(truth: ExpectedFeeds, walk: FeedWalkSpec = WALK, after: str | None = None) -> dict[str, Any]:
    """Return the correct page after a cursor."""
    expected = truth.expected(walk)
    following = expected.behind(after, walk.page_size + 1)
    records = [copy.deepcopy(expected.records[name]) for name in following[: walk.page_size]]
    return {walk.name("FinalPage"): len(following) <= walk.page_size, walk.name("Listings"): records}


def _wrong(
    judge: PageOracle, answer: dict[str, Any], walk: FeedWalkSpec = WALK, after: str | None = None, at: float = 0.0
) -> int:
    """Return how many deviations an oracle finds in a page."""
    before = judge.wrong
    judge.page(walk, after, ReceivedPage.of(walk, orjson.dumps(answer), at))
    return judge.wrong - before


def _wrong_walk(judge: PageOracle, ids: list[str], walk: FeedWalkSpec = WALK, began: float = 0.0) -> int:
    before = judge.wrong
    judge.whole(walk, WalkProgress(began, ids))
    return judge.wrong - before


def test_correct_pages_are_accepted_in_every_shape(truth: ExpectedFeeds) -> None:
    judge, chosen = PageOracle([truth]), mixed_walks(truth, 20)
    for walk in chosen:
        found: list[str] = []
        is_final = False
        while not is_final:
            after = found[-1] if found else None
            answer = _answer(truth, walk, after)
            assert _wrong(judge, answer, walk, after) == 0, judge.findings
            found += [record[walk.name("PlatformListingId")] for record in answer[walk.name("Listings")]]
            is_final = answer[walk.name("FinalPage")]
        assert found
        assert _wrong_walk(judge, found, walk) == 0
    assert {walk.path for walk in chosen} == {"/listings", "/sold_listings"}
    assert {walk.company for walk in chosen} - {None} == set(truth.companies())
    shapes = {(walk.underscored, walk.brief, walk.parent is not None) for walk in chosen}
    assert [any(shape) for shape in zip(*shapes, strict=True)] == [True] * 3


def _swap(listings: list[Any]) -> None:
    listings[2], listings[3] = listings[3], listings[2]


_FALSEHOODS: dict[str, Callable[[dict[str, Any]], object]] = {
    "records are missing": lambda answer: answer["Listings"].pop(3),
    "the last record is missing": lambda answer: answer["Listings"].pop(),
    "all are missing": lambda answer: answer["Listings"].clear(),
    "repeated": lambda answer: answer["Listings"].insert(4, answer["Listings"][3]),
    "one is in the place of another": lambda answer: answer["Listings"].__setitem__(4, answer["Listings"][3]),
    "FinalPage": lambda answer: answer.update(FinalPage=not answer["FinalPage"]),
    "do not belong here": lambda answer: answer["Listings"].append({"PlatformListingId": "foreign"}),
    "the order is wrong": lambda answer: _swap(answer["Listings"]),
    "other contents": lambda answer: answer["Listings"][5].update(ListPrice=1),
    "contents are missing": lambda answer: answer["Listings"][5].pop("ListPrice"),
    "contents too many": lambda answer: answer["Listings"][5].update(More=1),
}


@pytest.mark.parametrize("falsehood", _FALSEHOODS)
@pytest.mark.parametrize("page", [0, 1])
def test_a_wrong_page_is_detected(truth: ExpectedFeeds, falsehood: str, page: int) -> None:
    after = truth.expected(WALK).ids[SIZE - 1] if page else None
    answer, judge = _answer(truth, WALK, after), PageOracle([truth])
    assert _wrong(judge, answer, WALK, after) == 0
    _FALSEHOODS[falsehood](answer)
    assert _wrong(judge, answer, WALK, after) == 1


@pytest.mark.parametrize("left", [0, 1, SIZE - 1, SIZE])
def test_a_wrong_end_is_detected(truth: ExpectedFeeds, left: int) -> None:
    after = truth.expected(WALK).ids[-1 - left]
    answer = _answer(truth, WALK, after)
    assert (answer["FinalPage"], len(answer["Listings"])) == (True, left)
    assert _wrong(PageOracle([truth]), {**answer, "FinalPage": False}, WALK, after) == 1


def test_the_page_of_another_company_is_detected(truth: ExpectedFeeds) -> None:
    other = FeedWalkSpec(company="evergreen-realty", market_status="all", page_size=SIZE)
    assert _wrong(PageOracle([truth]), _answer(truth, other)) == 1


@pytest.mark.parametrize("body", [b"", b"[]", b'{"Listings": []}', b'{"FinalPage": 1, "Listings": []}'])
def test_a_body_that_is_not_a_page_is_reported(body: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        ReceivedPage.of(WALK, body)


def test_a_walk_that_lost_or_repeated_a_record_is_detected(truth: ExpectedFeeds) -> None:
    ids, judge = truth.expected(WALK).ids, PageOracle([truth])
    for falsified in (ids[:-1], ids[1:], ids[:5] + ids[6:], ids[:5] + ids[4:], [*ids, "zzz"], ids[::-1]):
        assert _wrong_walk(judge, falsified) == 1


def test_a_page_of_either_generation_is_accepted_and_a_mixture_is_not(truth: ExpectedFeeds) -> None:
    source = copy.deepcopy(dict(truth.source))
    for envelope in source["listings"]:
        envelope["record"]["PublicTitle"] = "of the other generation"
    other = ExpectedFeeds(source)
    judge, one, another = PageOracle([truth, other]), _answer(truth), _answer(other)
    assert (_wrong(judge, one), _wrong(judge, another)) == (0, 0)
    one["Listings"][7] = another["Listings"][7]
    assert _wrong(judge, one) == 1


def test_a_walk_through_both_generations_has_all_that_both_have(truth: ExpectedFeeds) -> None:
    listings = list(truth.source["listings"])
    listings.remove(next(envelope for envelope in listings if truth.matches(WALK, envelope)))
    fewer = ExpectedFeeds({**truth.source, "listings": listings})
    judge, all_ids, fewer_ids = PageOracle([truth, fewer]), truth.expected(WALK).ids, fewer.expected(WALK).ids
    assert len(fewer_ids) == len(all_ids) - 1
    assert (_wrong_walk(judge, all_ids), _wrong_walk(judge, fewer_ids)) == (0, 0)
    for falsified in (all_ids[:-1], fewer_ids[1:], ["000", *all_ids]):
        assert _wrong_walk(judge, falsified) == 1


# Records that change.


@pytest.fixture
def judge(truth: ExpectedFeeds) -> ChangingOracle:
    """An oracle without tolerance for former states."""
    history = RecordHistory.of(truth.source["listings"])
    history.lingers = 0.0
    return ChangingOracle([truth], histories={"listings": history})


def _changed(truth: ExpectedFeeds, name: str, **changes: Any) -> Envelope:
    [envelope] = [one for one in truth.source["listings"] if one["record"]["PlatformListingId"] == name]
    return {**envelope, "record": {**envelope["record"], **changes}}


def _found(judge: ChangingOracle, *envelopes: Envelope, final: bool = True, at: float | None = None) -> int:
    """Return the number of deviations of a page that is requested now."""
    answer = {"FinalPage": final, "Listings": [shown(CHANGING, envelope) for envelope in envelopes]}
    return _wrong(judge, answer, CHANGING, at=time.monotonic() if at is None else at)


def test_a_correct_page_is_accepted_and_wrong_ones_are_not(truth: ExpectedFeeds, judge: ChangingOracle) -> None:
    first = [_changed(truth, name) for name in truth.expected(CHANGING).ids[:SIZE]]
    foreign = next(envelope for envelope in truth.source["listings"] if not truth.matches(CHANGING, envelope))
    assert _found(judge, *first, final=False) == 0
    assert _found(judge, *first[:9], final=False) == 1  # not full and not the last
    assert _found(judge, *first, first[9]) == 1
    assert _found(judge, first[1], first[0]) == 1
    assert _found(judge, foreign) == 1
    assert _found(judge, _changed(truth, truth.expected(CHANGING).ids[0], ListPrice=1)) == 1


def test_both_states_are_accepted_during_a_change_and_only_the_new_one_afterwards(
    truth: ExpectedFeeds, judge: ChangingOracle
) -> None:
    history, name = judge.histories["listings"], truth.expected(CHANGING).ids[0]
    old, new = _changed(truth, name), _changed(truth, name, ListPrice=1)
    began = time.monotonic()
    assert _found(judge, new) == 1
    history.change({name: new})
    assert (_found(judge, old), _found(judge, new)) == (0, 0)
    history.settled([name])
    assert (_found(judge, old), _found(judge, new)) == (1, 0)
    assert _found(judge, old, at=began) == 0


def test_a_deleted_record_is_wrong_once_it_is_gone(truth: ExpectedFeeds, judge: ChangingOracle) -> None:
    history, name = judge.histories["listings"], truth.expected(CHANGING).ids[0]
    history.change({name: None})
    assert _found(judge, _changed(truth, name)) == 0
    history.settled([name])
    assert _found(judge, _changed(truth, name)) == 1


def test_a_walk_may_lack_what_changed_meanwhile_and_nothing_else(truth: ExpectedFeeds, judge: ChangingOracle) -> None:
    def lost(began: float, *walks: list[str]) -> list[int]:
        return [_wrong_walk(judge, walked, CHANGING, began) for walked in walks]

    history, ids = judge.histories["listings"], truth.expected(CHANGING).ids
    new = f"{ids[-1]}-1"
    began = time.monotonic()
    assert lost(began, ids, ids[1:], [*ids, ids[0]]) == [0, 1, 1]
    history.change({ids[0]: None, new: _changed(truth, ids[-1], PlatformListingId=new)})
    assert lost(time.monotonic(), ids, [*ids[1:], new]) == [0, 0]
    history.settled([ids[0], new])
    assert lost(began, ids, ids[1:], [*ids, new], ids[2:]) == [0, 0, 0, 1]
    assert lost(time.monotonic(), [*ids[1:], new], ids[1:]) == [0, 1]
