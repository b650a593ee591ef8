"""The exports that need a package which is an extra."""

import sys
from pathlib import Path

import orjson
import pytest

from brokerage_feed.export import export_resource
from brokerage_feed.pull import PullPlan, pull_once
from tests.consumer.conftest import ServedStandIn, open_pull, run


async def test_parquet_holds_what_the_copy_holds(served: ServedStandIn, tmp_path: Path) -> None:
    import pyarrow.parquet as pq  # noqa: PLC0415 - an extra of the product; the checks have it

    async with open_pull(served.url, tmp_path) as (pull, _):
        await pull_once(pull, PullPlan(tmp_path))
        assert export_resource(pull.copy, "listings", tmp_path, "parquet")
        assert not export_resource(pull.copy, "listings", tmp_path, "parquet")
    rows = pq.read_table(tmp_path / "listings.parquet").to_pylist()
    assert [(row["id"], row["content"], orjson.loads(row["record"])) for row in rows] == [
        (entry.id, entry.content, entry.record) for entry in served.stand_in.live("listings")
    ]
    assert {row["time"].isoformat() for row in rows} == {"2026-11-22T05:00:00.123000+00:00"}


async def test_without_its_package_parquet_is_refused_before_anything_is_asked(
    served: ServedStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = await run(tmp_path, "--url", served.url, "--format", "parquet")
    assert (code, served.stand_in.asked) == (1, [])
    assert err == "Parquet needs pyarrow, which is not installed: pip install pyarrow.\n"
