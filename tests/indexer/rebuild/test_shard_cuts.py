"""Cut points of a build: shards of the same weight, from a sample of the lines."""

from collections import Counter

import pytest

from indexer.generations.candidate import WeighedSample, fitting_shards
from indexer.load.duplicates import older_copies
from indexer.scan import IndexRow
from indexer.source.lines import SourceLine
from mappings import COMPANY, TEAM
from tests.indexer.changes.scope_consumers import COMPANIES, team
from tests.indexer.conftest import Bench, live_ranges
from tests.internals import Internals


def test_lines_are_chosen_in_proportion_to_their_bytes(internals: Internals) -> None:
    """Of a thousand light and a thousand heavy lines, nine in ten chosen ones are heavy."""
    internals(shard_sample_lines=200)
    samples = [WeighedSample(), WeighedSample()]
    for sample in samples:
        for number in range(2_000):
            sample.offer(SourceLine("f", number, b"x" * (90 if number % 2 else 10)))
    heavy = sum(len(line.data) == 90 for line in samples[0].lines)
    assert (len(samples[0].lines), samples[0].bytes) == (200, 100_000)
    assert 160 <= heavy < 200
    assert samples[0].lines == samples[1].lines


@pytest.mark.parametrize(
    ("size", "gigabytes", "shards"), [(0, 30, 1), (7 * 10**10, 30, 1), (10**12, 30, 13), (10**15, 1, 1024)]
)
def test_the_size_of_a_source_gives_the_number_of_shards(size: int, gigabytes: float, shards: int) -> None:
    """388 GB of index for a terabyte of source."""
    assert fitting_shards(size, gigabytes) == shards


async def test_a_build_is_cut_within_a_company_and_again_each_time(bench: Bench) -> None:
    """By the records that it has, for the resource that was named."""
    many = [team(f"{number:02}", "a", number) for number in range(28)]
    wanted = {"shards": ("teams=7",), "growth_limit": 100.0, "force": True}
    assert (await bench.build({COMPANY: COMPANIES, TEAM: many}, **wanted)).exit_code == 0
    first = await live_ranges(bench, TEAM)
    assert first.cuts == tuple(f"a:{number:02}" for number in range(4, 28, 4))
    more = [team(f"{number:02}", "b", number) for number in range(28, 56)]
    assert (await bench.build({COMPANY: COMPANIES, TEAM: [*many, *more]}, **wanted)).exit_code == 0
    assert (await live_ranges(bench, TEAM)).cuts == tuple(
        f"{'ab'[number >= 28]}:{number:02}" for number in range(8, 56, 8)
    )
    stats = await bench.client.indices.stats(index=bench.connection.alias(TEAM), metric="docs", level="shards")
    (index,) = stats["indices"].values()
    assert Counter(copy["docs"]["count"] for copies in index["shards"].values() for copy in copies) == {8: 7}
    settings = await bench.client.indices.get_settings(index=bench.connection.alias(COMPANY), flat_settings=True)
    (of_companies,) = settings.values()
    assert of_companies["settings"]["index.number_of_shards"] == "1"


def test_of_several_copies_the_newest_stays() -> None:
    """By version, then by content, as within a shard."""
    row = IndexRow("x", "a:x", 5, 1, 0, 0, deleted=False, reason=None, stored_version=5)
    newer, equal, other = replace_row(row, 6, 0), replace_row(row, 6, 9), replace_row(row, 1, 1, "y")
    assert older_copies([row, newer, other]) == [row]
    assert older_copies([newer, row]) == [row]
    assert sorted(copy.content for copy in older_copies([equal, newer, row])) == [0, 1]
    assert older_copies([row, other]) == []


def replace_row(row: IndexRow, version: int, content: int, identifier: str = "x") -> IndexRow:
    return IndexRow(
        identifier, f"b:{identifier}", version, content, 0, 0, deleted=row.deleted, reason=None, stored_version=version
    )
