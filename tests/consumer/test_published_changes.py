"""A pull that is far behind applies published files of changes, and reads the rest from the service."""

import random
from pathlib import Path

import pytest

from cluster.zstd import zstd
from tests.consumer.conftest import ServedStandIn, copied, run
from tests.consumer.stand_in_files import PublishedStandIn
from tests.consumer.test_published_files import asked, fill
from tests.consumer.test_pull_command import summary

CHANGED = 1_500


async def behind(served: ServedStandIn, folder: Path) -> PublishedStandIn:
    """Return what is published after a copy was made and many records have changed; a few have changed since."""
    stand_in, chance = served.stand_in, random.Random(7)  # noqa: S311 - repeatable
    fill(stand_in, chance)
    assert (await run(folder, "--url", served.url, "--no-files"))[0] == 0
    before = stand_in.sequences["listings"]
    for number in range(CHANGED):
        stand_in.put("listings", f"k{2 * number:05}", text=chance.randbytes(300).hex())
    stand_in.drop("listings", "k00007")
    published = stand_in.publish_changes("listings", before)
    stand_in.put("listings", "k00011", text="later")
    stand_in.drop("agents", "a3")
    stand_in.asked.clear()
    return published


async def test_files_of_changes_replace_pages(served: ServedStandIn, tmp_path: Path) -> None:
    """No file of whole records is fetched, and the copy is equal."""
    published = await behind(served, tmp_path)
    code, out, err = await run(tmp_path, "--url", served.url)
    assert (code, err) == (0, "")
    assert copied(tmp_path) == served.stand_in.contents()
    assert [name for name, _, _ in published.sent] == ["c0001.ndjson.zst"]
    assert (summary(out)["listings"]["proof"], summary(out)["listings"]["snapshots"]) == ("equal", 0)
    assert not (tmp_path / ".files").exists()


async def test_a_page_of_changes_is_read_without_looking_for_files(served: ServedStandIn, tmp_path: Path) -> None:
    await behind(served, tmp_path)
    assert (await run(tmp_path, "--url", served.url))[0] == 0
    served.stand_in.asked.clear()
    served.stand_in.put("listings", "k00013", text="later")
    assert (await run(tmp_path, "--url", served.url))[0] == 0
    assert asked(served.stand_in, "exports") == 0


@pytest.mark.parametrize("reason", ["larger", "format", "gone", "none"])
async def test_without_fitting_files_pages_are_read(served: ServedStandIn, tmp_path: Path, reason: str) -> None:
    """If they are not smaller than all records, of an unknown format, no longer there, or not for the token."""
    published = await behind(served, tmp_path)
    (file,) = published.changes
    if reason == "larger":
        file["bytes"] = sum(listed["bytes"] for listed in published.listed["files"])
    elif reason == "format":
        file["format"] = "cuneiform"
    elif reason == "gone":
        published.files.clear()
    else:
        published.changes.clear()
    code, out, _ = await run(tmp_path, "--url", served.url)
    assert (code, published.sent) == (0, [])
    assert copied(tmp_path) == served.stand_in.contents()
    assert summary(out)["listings"]["snapshots"] == 0


async def test_a_file_that_breaks_off_is_refused_and_the_next_pull_begins_at_its_token(
    served: ServedStandIn, tmp_path: Path
) -> None:
    """Until the whole file is applied, the copy has the token of before."""
    published = await behind(served, tmp_path)
    (file,) = published.changes
    whole = published.files["c0001.ndjson.zst"]
    broken = b"".join(zstd.decompress(whole).splitlines(keepends=True)[:1_200])
    published.replace(file, zstd.compress(broken))
    code, _, err = await run(tmp_path, "--url", served.url)
    assert (code, err) == (1, f"c0001.ndjson.zst has 1200 records, and not {CHANGED + 1}.\n")
    published.replace(file, whole)
    assert (await run(tmp_path, "--url", served.url))[0] == 0
    assert copied(tmp_path) == served.stand_in.contents()
