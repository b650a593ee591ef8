"""What a service announces is compared with limits of the client: files, bytes, records, and the space on the disk."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from brokerage_feed import Feed, FeedLimits, SyncFeed
from brokerage_feed.errors import CopyError, NoProgress, ResponseTooLarge
from brokerage_feed.http_client import MAX_LINE_BYTES
from brokerage_feed.messages import SnapshotRecord
from brokerage_feed.published_files import FileUpdater
from brokerage_feed.records import RESOURCE_NAMES as RESOURCES
from brokerage_feed.sqlite_copy import SqliteCopy
from tests.consumer.conftest import ServedStandIn, copied, open_pull, run
from tests.consumer.stand_in_service import KEY
from tests.internals import Internals, read_from_files
from tests.network.http import Reply, Request, http
from tests.network.server import serving

PETABYTE = 10**15


def downloads(served: ServedStandIn) -> list[str]:
    return [path for path, _ in served.stand_in.asked if path.endswith(".zst")]


async def test_a_file_is_not_requested_if_it_is_listed_as_larger_than_the_limit(
    served: ServedStandIn, tmp_path: Path
) -> None:
    published = served.stand_in.publish("listings", 1_000)
    published.listed["files"][0]["bytes"] = PETABYTE
    code, _, err = await run(tmp_path, "--url", served.url, "--max-total-gib", "1000000")
    assert code == 1
    assert "is listed with 1,000,000,000,000,000 bytes, more than 4,096 MiB" in err
    assert "raise BROKERAGE_PULL_MAX_FILE_MIB" in err
    assert downloads(served) == []
    assert copied(tmp_path)["listings"] == {}


async def test_a_list_of_more_bytes_than_the_limit_is_refused(served: ServedStandIn, tmp_path: Path) -> None:
    published = served.stand_in.publish("listings", 1)
    for file in published.listed["files"]:
        file["bytes"] = 2**30
    code, _, err = await run(tmp_path, "--url", served.url, "--max-total-gib", "6")
    assert code == 1
    assert "exports/listings lists 7 files with 7,516,192,768 bytes, more than 6 GiB" in err
    assert "raise BROKERAGE_PULL_MAX_TOTAL_GIB" in err
    assert downloads(served) == []


@pytest.mark.parametrize("options", [[], ["--no-files"]])
async def test_space_stays_free_on_the_disk(served: ServedStandIn, tmp_path: Path, options: Sequence[str]) -> None:
    served.stand_in.publish("listings", 1_000)
    pulled = ("--url", served.url, "--resources", "listings", *options)
    code, _, err = await run(tmp_path, *pulled, "--min-free-mib", str(10**9))
    assert code == 1
    assert "where 1,000,000,000 MiB stay free" in err
    assert "lower BROKERAGE_PULL_MIN_FREE_MIB" in err
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.zst")) == 0  # noqa: ASYNC240 - a small folder
    code, _, err = await run(tmp_path, *pulled)
    assert (code, err) == (0, "")


async def test_a_disk_that_fills_up_ends_the_changes(served: ServedStandIn, tmp_path: Path) -> None:
    async with open_pull(served.url, tmp_path) as (pull, _):
        await pull.catch_up()
    served.stand_in.put("listings", "later")
    with SqliteCopy(tmp_path, RESOURCES, "{}", FeedLimits(min_free_mib=10**9)) as copy:
        async with Feed(served.url, KEY) as feed:
            pages = [page async for page in feed.changes([copy.checkpoint("listings").token or ""])]
        with pytest.raises(CopyError, match="Adding listings needs 0 bytes"):
            copy.apply_changes(pages[0], ["listings"])
    assert "later" not in copied(tmp_path)["listings"]


async def test_a_snapshot_ends_with_the_records_that_it_announces() -> None:
    """A stream without an end would fill the disk, or with one record again and again go on for ever."""
    record = {"company": "acme", "id": "l1", "sequence": 1, "time": "2026-11-22T05:00:00Z", "content": "0" * 16}
    line = orjson.dumps(record | {"record": {}}) + b"\n"

    class Endless(Reply):
        async def send(self, request: Request) -> None:
            await request.connection.send(b"HTTP/1.1 200 OK\r\n\r\n")
            await request.connection.send(orjson.dumps({"resource": "listings", "token": "t", "count": 3}) + b"\n")
            while True:
                await request.connection.send(line)
                await asyncio.sleep(0)

    async def reply(_: Request) -> Reply:
        return Endless()

    async with serving(http(reply)) as server, Feed(server.url, KEY) as feed:
        header, records = await feed.snapshot("listings")
        for _ in range(header.count):
            await anext(records)
        with pytest.raises(NoProgress, match="snapshot/listings has more than the 3 records of its first line"):
            await anext(records)


async def test_a_file_ends_with_the_records_that_it_lists(served: ServedStandIn, tmp_path: Path) -> None:
    """Lines that are all alike take few bytes: a file of 1 MB can hold a hundred million of them."""
    published = served.stand_in.publish("listings", 1_000)
    published.listed["records"] = published.listed["files"][0]["records"] = 3
    async with open_pull(served.url, tmp_path, resources=("listings",)) as (pull, _):
        read_from_files(pull, tmp_path / ".files")
        with pytest.raises(NoProgress, match="has more than the 3 records that are listed"):
            await pull.catch_up()
        assert pull.copy.count("listings") <= 3


async def test_a_file_of_changes_ends_with_those_that_it_lists(served: ServedStandIn, tmp_path: Path) -> None:
    published = served.stand_in.publish_changes("listings", 0)
    published.changes[0]["records"] = 3
    published.listed["files"][0]["bytes"] = 10**9
    async with open_pull(served.url, tmp_path, resources=("listings",)) as (pull, _):
        pages = FileUpdater(pull.feed, pull.copy, tmp_path / ".files").changes("listings", "t")
        with pytest.raises(NoProgress, match="has more than the 3 records that are listed"):
            await anext(pages)


async def test_batches_are_bounded_in_bytes(
    served: ServedStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand records of 16 MiB, which compress to nothing, would fill the memory."""
    sizes = list[int]()
    add = SqliteCopy.add_snapshot_records

    def noted(copy: SqliteCopy, resource: str, records: Sequence[SnapshotRecord]) -> None:
        sizes.append(sum(record.size for record in records))
        add(copy, resource, records)

    monkeypatch.setattr(SqliteCopy, "add_snapshot_records", noted)
    size = MAX_LINE_BYTES // 3
    for number in range(7):
        served.stand_in.put("listings", f"l{number}", text="x" * size)
    served.stand_in.publish("listings", 1_000)
    for options in ([], ["--no-files"]):
        sizes.clear()
        folder = tmp_path / f"copy{len(options)}"
        code, _, err = await run(folder, "--url", served.url, "--resources", "listings", *options)
        assert (code, err) == (0, "")
        assert len(sizes) >= 2
        assert max(sizes) < MAX_LINE_BYTES + size + 1_000


async def test_a_program_without_a_loop_has_few_records_in_memory(served: ServedStandIn, internals: Internals) -> None:
    sizes, take = list[int](), internals.present("sync_feed_take")

    async def noted(items: Any, count: int) -> Any:
        taken, error = await take(items, count)
        sizes.append(sum(record.size for record in taken))
        return taken, error

    internals(sync_feed_take=noted)
    size = MAX_LINE_BYTES // 3
    for number in range(7):
        served.stand_in.put("listings", f"l{number}", text="x" * size)

    def read() -> int:
        with SyncFeed(served.url, KEY) as feed:
            return sum(1 for _ in feed.snapshot("listings")[1])

    assert await asyncio.to_thread(read) == 7
    assert max(sizes) < MAX_LINE_BYTES + size + 1_000


async def test_a_large_total_is_refused_to_programs(served: ServedStandIn, tmp_path: Path) -> None:
    published = served.stand_in.publish_changes("listings", 0)
    published.changes[0]["bytes"] = PETABYTE
    async with Feed(served.url, KEY) as feed:
        with pytest.raises(ResponseTooLarge, match="lists 2 files"):
            await feed.published("listings", "t")
        listed = (await feed.published("listings")).files[0]
        listed.bytes = PETABYTE
        with pytest.raises(ResponseTooLarge, match=r"FeedLimits\.max_file_mib"):
            await feed.download("listings", listed, tmp_path / "file")
    assert not (tmp_path / "file").exists()
