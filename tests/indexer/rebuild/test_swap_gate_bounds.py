"""The bounds of the gate: how many records are added and removed, and a sample of what was sent."""

from dataclasses import replace

import pytest

from indexer import IndexerSettings
from indexer.generations.gates import count_objection
from indexer.load.loader import DocumentSample
from mappings import TEAM
from tests.indexer.bulk_writes import bulk_sender, bulk_write, created_index
from tests.indexer.conftest import Bench
from tests.indexer.parsed_lines import parse_line
from tests.indexer.rebuild.test_swap_gate import teams
from tests.records import envelope


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (0, 0, None),
        (0, 10, None),
        (0, 11, "it gains more"),
        (10, 0, "no records"),
        (10, 1, None),
        (11, 1, None),
        (11, 0, "no records"),
        (20, 30, None),
        (20, 31, "it gains more"),
        (1000, 1500, None),
        (1000, 1501, "it gains more"),
    ],
)
def test_ten_records_and_a_share_may_always_come_and_go(before: int, after: int, said: str | None) -> None:
    found = count_objection(IndexerSettings(), before, after)
    assert (found is None) is (said is None)
    assert said is None or said in str(found)


def test_a_limit_of_everything_objects_to_nothing_but_an_empty_generation() -> None:
    settings = replace(IndexerSettings(), shrink_limit=1.0, growth_limit=1000.0)
    assert count_objection(settings, 1000, 1) is count_objection(settings, 1, 1000) is None
    assert "no records" in str(count_objection(settings, 1000, 0))


async def test_a_sample_is_the_same_in_any_order_and_finds_what_is_not_stored(bench: Bench) -> None:
    index = await created_index(bench, "sampled")
    documents = [parse_line(TEAM, team) for team in teams(300)]
    one, other = DocumentSample(), DocumentSample()
    for document in documents:
        one.offer(document)
    for document in reversed(documents):
        other.offer(document)
    chosen, others = (sample.added() for sample in (one, other))
    assert sorted(chosen) == sorted(others)
    assert len({kept[1] for kept in chosen}) == 100
    await bulk_sender(bench, index).send([bulk_write(document) for document in documents])
    await bench.client.indices.refresh(index=index)
    assert await one.find_differences(bench.engine(), index) == []
    missing, newer = chosen[0][1], chosen[1][1]
    await bench.client.delete(index=index, id=missing)
    again = parse_line(TEAM, envelope(TEAM, {"uuid": newer, "name": "later"}, updated_at="2026-02-01T00:00:00Z"))
    await bulk_sender(bench, index).send([bulk_write(again)])
    await bench.client.indices.refresh(index=index)
    assert await one.find_differences(bench.engine(), index) == [missing]
