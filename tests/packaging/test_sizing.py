"""`docs/sizing.md`: its tables follow from inputs that other pages hold, by arithmetic that is checked by hand."""

from __future__ import annotations

import json

import pytest

from bench.report import between_marks
from bench.sizing import (
    BUILT_A_SECOND,
    DOCS,
    REBUILT_A_SECOND,
    SAMPLED,
    SAMPLED_INDEX_BYTES,
    SAMPLED_SOURCE_BYTES,
    Chosen,
    Measured,
    Size,
    measured,
)
from bench.sizing_page import LISTINGS, PAGE, cores, figures, size, tables, time
from indexer import IndexerSettings
from mappings.index import settings

RESULTS = json.loads((DOCS / "performance/results.json").read_bytes())
TEXT = PAGE.read_text(encoding="utf-8")
# Round numbers, so that what follows from them can be worked out on paper.
ROUND = Measured(
    index_bytes=2000,
    source_bytes=6000,
    answer_bytes=6000,
    gzip_bytes=800,
    service_seconds=10e-6,
    engine_seconds=35e-6,
    page_service_seconds=15e-6,
    page_engine_seconds=30e-6,
    updated_factor=2,
    gzip_seconds=4e-6,
    walked_a_second=20_000,
    built_a_second=5_000,
    rebuilt_a_second=4_000,
)


def test_the_tables_are_those_of_the_results() -> None:
    assert between_marks(TEXT, tables(measured(RESULTS))) == TEXT


def test_a_billion_is_worked_out_as_on_paper() -> None:
    big = Size(1_000_000_000, ROUND)
    assert big.index_bytes == 2e12
    assert big.shards == 50
    assert big.resting_bytes == 2e12 * 2 * 2
    assert big.building_bytes == 8e12 + 4e12
    assert big.disk_bytes == pytest.approx(12e12 / 0.85)
    assert big.rows_a_second == pytest.approx(115_740.74)
    assert big.service_cores == pytest.approx(115_740.74 * 14e-6 / 0.7)
    assert big.engine_cores == pytest.approx(5.787037)
    assert big.replicas == 3  # 2.3 cores, but never less
    assert big.nodes == 4  # 14.1 TB on disks of 4 TB
    assert big.cache_bytes == 1e12


def test_nodes_follow_from_cores_where_partners_are_many() -> None:
    many = Size(1_000_000, ROUND, Chosen(partners=100_000))
    # 1,157,407 a second at 35 µs over 0.7, twice that once updated: 115.7 cores of 16 a node.
    assert many.nodes == 8
    assert many.replicas == 24


def test_what_a_million_takes_is_at_least_three_of_each() -> None:
    small = Size(1_000_000, ROUND)
    assert (small.shards, small.nodes, small.replicas) == (1, 3, 3)


def test_the_results_are_read_as_the_performance_page_tells_them() -> None:
    of = measured(RESULTS)
    performance = (DOCS / "performance.md").read_text(encoding="utf-8")
    (walk,) = [
        line
        for line in performance.splitlines()
        if line.startswith("| service |") and "GB" not in line and "6.52" in line
    ]
    assert f"| {of.walked_a_second:,.0f} |" in walk
    assert f"service {of.service_seconds * 1e6:.1f}, Elasticsearch {of.engine_seconds * 1e6:.1f} |" in walk
    assert f"| {of.answer_bytes / 1000:.2f} |" in walk
    assert "At rest 79 MB; while 64 clients walk at once at most 170" in performance
    assert "79 MB at rest and 170 MB while 64" in TEXT


def test_the_constants_are_those_that_the_pages_cite() -> None:
    indexing = (DOCS / "indexing.md").read_text(encoding="utf-8")
    assert f"({BUILT_A_SECOND:,} of " in indexing
    assert f"({REBUILT_A_SECOND:,} a second)" in indexing
    assert f"{SAMPLED_INDEX_BYTES:,} bytes in one merged segment for {SAMPLED_SOURCE_BYTES:,} bytes" in TEXT
    assert f"--listings {SAMPLED}`" in TEXT


def test_what_is_chosen_is_what_the_product_does() -> None:
    assert Chosen().generations == IndexerSettings().kept_generations
    assert settings()["index.number_of_shards"] == 1
    assert [f"{listings:,}" for listings in LISTINGS] == ["1,000,000", "100,000,000", "1,000,000,000"]


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        (figures(1234), "1,230"),
        (figures(0.1234), "0.123"),
        (size(999), "999 B"),
        (size(1_882), "1.88 KB"),
        (size(2.5e12), "2.5 TB"),
        (time(119), "119 s"),
        (time(120), "2 min"),
        (time(200_000), "2.31 days"),
        (cores(0.09), "< 0.1"),
        (cores(12.34), "12.3"),
    ],
    ids=str,
)
def test_numbers_are_shown_with_three_figures_in_the_unit_that_fits(shown: str, value: str) -> None:
    assert shown == value
