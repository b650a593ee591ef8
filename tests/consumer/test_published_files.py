"""A pull begins with published files: verified, resumed within a file, and followed by the changes."""

import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from brokerage_feed import SyncFeed
from brokerage_feed.errors import FeedRequestRejected, NoProgress
from brokerage_feed.feed import Feed
from brokerage_feed.sqlite_copy import SqliteCopy
from cluster.zstd import zstd
from service.site.pages import PAGE_BY_PATH
from tests.consumer.conftest import ServedStandIn, command, copied, run
from tests.consumer.stand_in_files import PublishedStandIn
from tests.consumer.stand_in_service import KEY, StandInService
from tests.consumer.test_pull_command import summary
from tests.internals import internals_set
from tests.waiting import until

RECORDS = 3_000


def fill(stand_in: StandInService, chance: random.Random) -> None:
    """Write listings that take some bytes, however they are compressed."""
    for number in range(RECORDS):
        stand_in.put("listings", f"k{number:05}", text=chance.randbytes(300).hex())


def asked(stand_in: StandInService, operation: str) -> int:
    return sum(path.startswith(f"/v1/{operation}/") for path, _ in stand_in.asked)


async def test_files_replace_the_snapshot_and_changes_follow(served: ServedStandIn, tmp_path: Path) -> None:
    """Of resources that have files; what is not published comes as a snapshot."""
    fill(served.stand_in, random.Random(1))  # noqa: S311 - repeatable
    published = served.stand_in.publish("listings", 1_100)
    assert len(published.files) == 3
    served.stand_in.put("listings", "k00007", text="later")
    served.stand_in.drop("listings", "k00008")
    code, out, err = await run(tmp_path, "--url", served.url)
    assert (code, err) == (0, "")
    assert copied(tmp_path) == served.stand_in.contents()
    listings = summary(out)["listings"]
    assert (listings["files"], listings["snapshots"], listings["proof"]) == (3, 0, "equal")
    assert (listings["changed"], listings["removed"]) == (1, 1)
    assert summary(out)["agents"]["snapshots"] == 1
    assert not (tmp_path / ".files").exists()
    assert asked(served.stand_in, "snapshot") == 5


@pytest.mark.parametrize(
    "options", [["--no-files"], ["--market-status", "on-market"], ["--include-deactivated"]], ids=lambda found: found[0]
)
async def test_with_filters_or_by_choice_it_is_a_snapshot(
    served: ServedStandIn, tmp_path: Path, options: list[str]
) -> None:
    published = served.stand_in.publish("listings", 1_000)
    code, _, _ = await run(tmp_path, "--url", served.url, *options)
    assert (code, published.sent) == (0, [])


async def test_old_files_and_those_of_another_format_are_left(served: ServedStandIn, tmp_path: Path) -> None:
    """Their changes would take longer, or they cannot be read."""
    old = served.stand_in.publish("listings", 1_000)
    old.listed["published"] = "2026-01-01T00:00:00Z"
    other = served.stand_in.publish("agents", 1_000)
    other.listed["files"][0]["format"] = "cuneiform"
    code, _, _ = await run(tmp_path, "--url", served.url)
    assert (code, old.sent, other.sent) == (0, [], [])
    assert copied(tmp_path) == served.stand_in.contents()


async def test_a_download_that_is_cut_continues_where_it_was(
    served: ServedStandIn, tmp_path: Path, waits: list[float], amount: Callable[[int, int], int]
) -> None:
    """No stored byte is fetched again, whatever is cut, and as often as it makes progress."""
    chance = random.Random(2)  # noqa: S311 - repeatable
    fill(served.stand_in, chance)
    published = served.stand_in.publish("listings", 2 * RECORDS)
    (data,) = published.files.values()
    cuts = amount(12, 50)
    published.cuts = [chance.randint(0, 2 * len(data) // cuts) for _ in range(cuts)]
    # The HTTP library drops what it has not passed on when a connection ends.
    published.before_cut = lambda end: until(lambda: end in file_sizes(tmp_path / ".files"))
    code, _, err = await run(tmp_path, "--url", served.url, "--attempts", "60")
    assert (code, err) == (0, "")
    assert copied(tmp_path) == served.stand_in.contents()
    assert sum(count for _, _, count in published.sent) == len(data)
    assert [first for _, first, _ in published.sent] == [
        sum(count for _, _, count in published.sent[:at]) for at in range(len(published.sent))
    ]
    assert {name for name, *_ in published.sent} == {*published.files}
    assert len(waits) == len(published.sent) - 1


async def test_a_pull_that_is_killed_continues_within_a_file(
    served: ServedStandIn, tmp_path: Path, amount: Callable[[int, int], int]
) -> None:
    """Within a download, and while records are stored: no byte and no record is fetched again."""
    chance = random.Random(3)  # noqa: S311 - repeatable
    fill(served.stand_in, chance)
    published = served.stand_in.publish("listings", 1_000)
    sizes = [len(data) for data in published.files.values()]
    for _ in range(amount(2, 30)):
        published.cuts = [chance.randint(1, sizes[0] // 40)] * 1_000
        await kill_within_a_download(served, published, tmp_path)
    published.cuts = []
    code, out, err = await run(tmp_path, "--url", served.url, "--resources", "listings")
    assert (code, err) == (0, "")
    assert summary(out)["listings"]["snapshots"] == 0
    assert copied_listings(tmp_path) == {entry.id: entry.content for entry in served.stand_in.live("listings")}
    # What was sent at the moment of a kill may not be stored.
    assert sum(count for _, _, count in published.sent) < sum(sizes) + 31 * (sizes[0] // 40)


def file_sizes(folder: Path) -> set[int]:
    """Return the sizes of the files below a folder in bytes."""
    return {path.stat().st_size for path in folder.rglob("*") if path.is_file()}


async def kill_within_a_download(served: ServedStandIn, published: PublishedStandIn, folder: Path) -> None:
    """Start a pull, and kill it when it has received a part of a file."""
    before = len(published.sent)
    async with command(folder, "--url", served.url, "--resources", "listings") as process:
        await until(lambda: len(published.sent) > before or process.returncode is not None)
        process.kill()
        await process.communicate()


def copied_listings(folder: Path) -> dict[str, str]:
    with closing(sqlite3.connect(f"file:{folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
        return dict(connection.execute("SELECT id, content FROM listings"))


async def test_a_load_that_was_stopped_continues_after_its_last_record(served: ServedStandIn, tmp_path: Path) -> None:
    """Files that are loaded are not fetched again."""
    fill(served.stand_in, random.Random(4))  # noqa: S311 - repeatable
    published = served.stand_in.publish("listings", 1_100)
    stopping = stop_after(14, SqliteCopy.add_snapshot_records)
    with internals_set(published_batch_records=100, copy_add_snapshot_records=stopping):
        code, _, _ = await run(tmp_path, "--url", served.url, "--resources", "listings")
    assert code == 1
    assert len(copied_listings(tmp_path)) == 1_400
    published.sent.clear()
    code, _, _ = await run(tmp_path, "--url", served.url, "--resources", "listings")
    assert code == 0
    # The second file was complete on the disk.
    assert [name for name, _, _ in published.sent] == [*published.files][2:]
    assert copied_listings(tmp_path) == {entry.id: entry.content for entry in served.stand_in.live("listings")}


def stop_after(batches: int, add: Callable[..., None]) -> Callable[..., None]:
    left = iter(range(batches))

    def adding(*arguments: object) -> None:
        if next(left, None) is None:
            raise NoProgress("a test")
        add(*arguments)

    return adding


async def test_a_stopped_load_continues_as_a_snapshot_if_the_files_are_gone(
    served: ServedStandIn, tmp_path: Path
) -> None:
    """From its last record, with its first token."""
    fill(served.stand_in, random.Random(5))  # noqa: S311 - repeatable
    published = served.stand_in.publish("listings", 1_000)
    published.cuts = [10**9, 0]
    code, _, _ = await run(tmp_path, "--url", served.url, "--resources", "listings", "--attempts", "1")
    assert (code, len(published.sent)) == (3, 2)
    served.stand_in.put("listings", "k00001", text="later")
    served.stand_in.publish("listings", 1_000)
    code, _, _ = await run(tmp_path, "--url", served.url, "--resources", "listings")
    assert (code, len(published.sent)) == (0, 2)
    assert copied_listings(tmp_path) == {entry.id: entry.content for entry in served.stand_in.live("listings")}
    (snapshot,) = [query for path, query in served.stand_in.asked if path == "/v1/snapshot/listings"]
    assert snapshot["after"] == "acme:k00999"


def flip_a_bit(published: PublishedStandIn) -> None:
    ((name, data),) = published.files.items()
    published.files[name] = data[:-1] + bytes([data[-1] ^ 1])


def claim_a_record_more(published: PublishedStandIn) -> None:
    (listed,) = published.listed["files"]
    listed["records"] = published.listed["records"] = 8


def replace(data: bytes) -> Callable[[PublishedStandIn], None]:
    """Return what lists other bytes as a file."""
    return lambda published: published.replace(published.listed["files"][0], data)


@pytest.mark.parametrize(
    "damage", [flip_a_bit, claim_a_record_more, replace(zstd.compress(b'{"id": 1}\n')), replace(b"no frames")]
)
async def test_a_file_that_is_not_as_listed_is_refused(
    served: ServedStandIn, tmp_path: Path, damage: Callable[[PublishedStandIn], None]
) -> None:
    """The message names the file."""
    published = served.stand_in.publish("listings", 1_000)
    damage(published)
    code, _, err = await run(tmp_path, "--url", served.url, "--resources", "listings", "--attempts", "2")
    assert code == 1
    assert "ndjson.zst" in err or published.listed["files"][0]["sha256"] in err


async def test_a_service_without_files_is_asked_once_for_a_resource(served: ServedStandIn, tmp_path: Path) -> None:
    for _ in range(2):
        assert (await run(tmp_path, "--url", served.url))[0] == 0
    assert asked(served.stand_in, "exports") == 6


async def test_programs_list_and_download_files(served: ServedStandIn, tmp_path: Path) -> None:
    """With `await` and without; the program of the guide is the second."""
    published = served.stand_in.publish("listings", 4)
    async with Feed(served.url, KEY) as feed:
        listed = await feed.published("listings")
        for file in listed.files:
            await feed.download("listings", file, tmp_path / file.name)
            assert (tmp_path / file.name).read_bytes() == published.files[file.name]
        with pytest.raises(FeedRequestRejected, match="not-published"):
            await feed.published("agents")
    (program,) = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE_BY_PATH["/docs/everything"].text)
    assert "feed.published" in program
    assert SyncFeed.published is not None
