"""What the gate judges by: how many records come and go, and a sample of what was sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from indexer import IndexerSettings
from indexer.gate import Sample, objections
from mappings import TEAM
from tests.indexer.lines import accept
from tests.indexer.sending import created, sender, written
from tests.indexer.test_gate import teams
from tests.records import envelope

if TYPE_CHECKING:
    from tests.indexer.conftest import Bench


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (0, 0, None),
        (0, 10, None),
        (0, 11, "more come"),
        (10, 0, "no records"),
        (10, 1, None),
        (11, 1, None),
        (11, 0, "no records"),
        (200, 190, None),
        (200, 189, "more go"),
        (1000, 950, None),
        (1000, 949, "more go"),
        (20, 30, None),
        (20, 31, "more come"),
        (1000, 1500, None),
        (1000, 1501, "more come"),
    ],
)
def test_ten_records_and_a_share_may_always_come_and_go(before: int, after: int, said: str | None) -> None:
    found = objections(IndexerSettings(), before, after)
    assert [said in objection for objection in found if said] == [True] * (said is not None)
    assert bool(found) is (said is not None)


def test_a_limit_of_everything_objects_to_nothing_but_an_empty_generation() -> None:
    settings = replace(IndexerSettings(), shrink_limit=1.0, growth_limit=1000.0)
    assert objections(settings, 1000, 1) == objections(settings, 1, 1000) == []
    assert len(objections(settings, 1000, 0)) == 1


async def test_a_sample_is_the_same_whatever_the_order_and_tells_what_is_not_stored(bench: Bench) -> None:
    index = await created(bench, "sampled")
    drafts = [accept(TEAM, team) for team in teams(300)]
    one, other = Sample(), Sample()
    for draft in drafts:
        one.offer(draft)
    for draft in reversed(drafts):
        other.offer(draft)
    assert sorted(one._kept) == sorted(other._kept)
    assert len({kept[1] for kept in one._kept}) == 100
    await sender(bench, index).send([written(draft) for draft in drafts])
    await bench.client.indices.refresh(index=index)
    assert await one.differing(bench.engine(), index) == []
    missing, newer = one._kept[0][1], one._kept[1][1]
    await bench.client.delete(index=index, id=missing)
    again = accept(TEAM, envelope(TEAM, {"uuid": newer, "name": "later"}, updated_at="2027-01-01T00:00:00Z"))
    await sender(bench, index).send([written(again)])
    await bench.client.indices.refresh(index=index)
    assert await one.differing(bench.engine(), index) == [missing]
