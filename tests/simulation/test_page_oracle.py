"""The page oracle detects every kind of wrong page."""

import copy
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from sample import write_source
from tests.simulation.oracle import ExpectedFeeds, FeedWalkSpec, PageOracle, ReceivedPage, WalkProgress, mixed_walks

Falsify = Callable[[dict[str, Any]], object]

SIZE = 10


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> ExpectedFeeds:
    folder = tmp_path_factory.mktemp("judged") / "source"
    write_source(folder, 120)
    return ExpectedFeeds.of(folder)


@pytest.fixture(scope="module")
def other(truth: ExpectedFeeds) -> ExpectedFeeds:
    """The same records with different titles."""
    source = copy.deepcopy(dict(truth.source))
    for envelope in source["listings"]:
        envelope["record"]["PublicTitle"] = "of the other generation"
    return ExpectedFeeds(source)


WALK = FeedWalkSpec(company="summit-crest", market_status="all", page_size=SIZE)


def _answer(truth: ExpectedFeeds, walk: FeedWalkSpec, after: str | None) -> dict[str, Any]:
    """Return the correct page after a cursor."""
    expected = truth.expected(walk)
    following = expected.behind(after, walk.page_size + 1)
    records = [copy.deepcopy(expected.records[name]) for name in following[: walk.page_size]]
    return {walk.name("FinalPage"): len(following) <= walk.page_size, walk.name("Listings"): records}


def _judged(judge: PageOracle, walk: FeedWalkSpec, after: str | None, answer: dict[str, Any]) -> None:
    judge.page(walk, after, ReceivedPage.of(walk, orjson.dumps(answer)))


def _walked(truth: ExpectedFeeds, walk: FeedWalkSpec, judge: PageOracle) -> list[str]:
    """Let an oracle check a complete correct walk; return its identifiers."""
    found: list[str] = []
    while True:
        answer = _answer(truth, walk, found[-1] if found else None)
        _judged(judge, walk, found[-1] if found else None, answer)
        found += [record[walk.name("PlatformListingId")] for record in answer[walk.name("Listings")]]
        if answer[walk.name("FinalPage")]:
            judge.whole(walk, WalkProgress(0.0, found))
            return found


def test_correct_pages_are_accepted_in_every_shape(truth: ExpectedFeeds) -> None:
    judge = PageOracle([truth])
    chosen = mixed_walks(truth, 20)
    found = [_walked(truth, walk, judge) for walk in chosen]
    assert judge.findings == []
    assert all(found)
    assert {walk.path for walk in chosen} == {"/listings", "/sold_listings"}
    assert {walk.company for walk in chosen} - {None} == set(truth.companies())
    assert any(walk.underscored for walk in chosen)
    assert any(walk.brief for walk in chosen)
    assert any(walk.parent for walk in chosen)


def _swap(listings: list[Any]) -> None:
    listings[2], listings[3] = listings[3], listings[2]


_FALSEHOODS: dict[str, Falsify] = {
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
    answer = _answer(truth, WALK, after)
    judge = PageOracle([truth])
    _judged(judge, WALK, after, answer)
    assert judge.wrong == 0
    _FALSEHOODS[falsehood](answer)
    _judged(judge, WALK, after, answer)
    assert judge.wrong == 1


@pytest.mark.parametrize("left", [0, 1, SIZE - 1, SIZE])
def test_a_wrong_end_is_detected(truth: ExpectedFeeds, left: int) -> None:
    after = truth.expected(WALK).ids[-1 - left]
    answer = _answer(truth, WALK, after)
    assert (answer["FinalPage"], len(answer["Listings"])) == (True, left)
    answer["FinalPage"] = False
    judge = PageOracle([truth])
    _judged(judge, WALK, after, answer)
    assert judge.wrong == 1


def test_the_page_of_another_company_is_detected(truth: ExpectedFeeds) -> None:
    answer = _answer(truth, FeedWalkSpec(company="evergreen-realty", market_status="all", page_size=SIZE), None)
    judge = PageOracle([truth])
    _judged(judge, WALK, None, answer)
    assert judge.wrong == 1


@pytest.mark.parametrize("body", [b"", b"[]", b'{"Listings": []}', b'{"FinalPage": 1, "Listings": []}'])
def test_a_body_that_is_not_a_page_is_reported(body: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        ReceivedPage.of(WALK, body)


def test_a_walk_that_lost_or_repeated_a_record_is_detected(truth: ExpectedFeeds) -> None:
    ids = truth.expected(WALK).ids
    judge = PageOracle([truth])
    for falsified in (ids[:-1], ids[1:], ids[:5] + ids[6:], ids[:5] + ids[4:], [*ids, "zzz"], ids[::-1]):
        before = judge.wrong
        judge.whole(WALK, WalkProgress(0.0, falsified))
        assert judge.wrong == before + 1


def test_a_page_of_either_generation_is_accepted_and_a_mixture_is_not(
    truth: ExpectedFeeds, other: ExpectedFeeds
) -> None:
    judge = PageOracle([truth, other])
    one, another = _answer(truth, WALK, None), _answer(other, WALK, None)
    _judged(judge, WALK, None, one)
    _judged(judge, WALK, None, another)
    assert judge.wrong == 0
    one["Listings"][7] = another["Listings"][7]
    _judged(judge, WALK, None, one)
    assert judge.wrong == 1


def test_a_walk_through_both_generations_has_all_that_both_have(truth: ExpectedFeeds) -> None:
    listings = truth.source["listings"]
    dropped = next(one["record"]["PlatformListingId"] for one in listings if truth.matches(WALK, one))
    fewer = ExpectedFeeds(
        {**truth.source, "listings": [e for e in listings if e["record"]["PlatformListingId"] != dropped]}
    )
    judge = PageOracle([truth, fewer])
    for true in (truth.expected(WALK).ids, fewer.expected(WALK).ids):
        judge.whole(WALK, WalkProgress(0.0, true))
    assert judge.wrong == 0
    for falsified in (truth.expected(WALK).ids[:-1], fewer.expected(WALK).ids[1:], ["000", *truth.expected(WALK).ids]):
        before = judge.wrong
        judge.whole(WALK, WalkProgress(0.0, falsified))
        assert judge.wrong == before + 1
