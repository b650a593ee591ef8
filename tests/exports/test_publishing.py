"""Publications: equal to a snapshot, visible once whole, resumed after a kill, pruned."""

import asyncio
import os
import struct
import time
from dataclasses import replace
from hashlib import sha256
from typing import Any

import msgspec
import pytest
import zstandard

from mappings import COMPANY, LISTING, RESOURCES
from service.changes.snapshot import PointInTime
from service.errors import EngineUnavailable
from service.exports.publications import Manifest
from service.publishing.files import PublicationFiles
from service.publishing.target import FolderRunLog, PublishError, PublishLocked, PublishUnavailable, TargetFolder
from tests.exports.conftest import Exports
from tests.feed.feed_client import ConsumerCopy, company, deleted_listing, listing, source_time
from tests.internals import Internals, internals_set
from tests.service_settings import with_settings

# What each run says of an installation without these.
NOTES = ["Nothing was ever loaded of agents, teams, sold_listings: they have no files."]


async def test_files_hold_what_a_snapshot_has(exports: Exports) -> None:
    """For every company and resource that is loaded; the digest is that of `/digest`."""
    assert (await exports.publish()).notes == NOTES
    for of in "ab":
        for resource in ("companies", "offices", "listings"):
            manifest = exports.latest(of, resource)
            head, *lines, tail = await exports.feed.snapshot(resource, "all", platform_company_id=of)
            assert exports.lines(manifest) == lines
            assert (manifest.records, manifest.digest, manifest.schema) == (
                len(lines),
                tail["digest"],
                head["schema"],
            )
            digest = await exports.feed.json(f"digest/{resource}", "all", platform_company_id=of)
            assert (digest["count"], digest["digest"]) == (manifest.records, manifest.digest)
    assert [line["id"] for line in exports.lines(exports.latest("a", "offices"))] == ["O1"]
    assert exports.latest("c").files == ()
    assert not (exports.root / "a" / "teams" / "manifest.json").exists()


async def test_files_of_a_parent_company_hold_nothing_of_its_children(exports: Exports) -> None:
    """A key of the parent alone may read them."""
    child = company("b") | {"parent_company_id": "a", "updated_at": source_time(9)}
    await exports.feed.update(child, resource=COMPANY)
    await exports.publish("a")
    _, *lines, _ = await exports.feed.snapshot("listings", "all", parent_company_id="a")
    assert {line["id"] for line in lines} == {"L1", "L3", "L5", "L7", "L9"}
    assert {line["id"] for line in exports.lines(exports.latest("a"))} == {"L0", "L2", "L4", "L6", "L8"}
    assert {line["id"] for line in exports.lines(exports.latest("a", "companies"))} == {"a"}


async def test_a_file_is_complete_at_its_size_and_consists_of_frames(exports: Exports, internals: Internals) -> None:
    """Each file and each frame can be read by itself, and the table at its end says where frames begin."""
    await exports.publish("a")
    one = exports.latest("a")
    (file,) = one.files
    data = (exports.root / "a" / "listings" / file.name).read_bytes()
    assert (file.records, file.bytes, file.sha256) == (5, len(data), sha256(data).hexdigest())
    count, _, magic = struct.unpack("<IBI", data[-9:])
    assert (count, magic) == (3, 0x8F92EAB1)
    start, pieces = 0, []
    for packed, plain in struct.iter_unpack("<II", data[-9 - 8 * count : -9]):
        piece = zstandard.ZstdDecompressor().decompress(data[start : start + packed], max_output_size=plain)
        assert len(piece) == plain
        pieces.append(piece)
        start += packed
    assert [piece.count(b"\n") for piece in pieces] == [2, 2, 1]

    internals(published_file_bytes=1)
    await exports.publish("a")
    several = exports.latest("a")
    assert [each.records for each in several.files] == [2, 2, 1]
    assert exports.lines(several) == exports.lines(one)
    assert several.previous == one.publication


async def test_changes_continue_from_the_token(exports: Exports) -> None:
    """What was written since comes, in the order of changes, and the copy is equal in the end."""
    await exports.publish()
    manifest = exports.latest("a")
    await exports.feed.update(listing("L0", "a", 1, price=7), deleted_listing("L2", "a", 1), listing("L3", "b", 1))
    assert await exports.feed.summaries(manifest.token) == [("L0", 7), ("L2", "deleted")]
    copy = ConsumerCopy("listings")
    copy.records = {line["id"]: (line["content"], line["record"]) for line in exports.lines(manifest)}
    copy.apply((await exports.feed.changes(manifest.token))[0])
    digest = await exports.feed.json("digest/listings")
    assert copy.digest(copy.records) == (digest["count"], digest["digest"])


async def test_it_is_of_one_moment_whatever_is_written_meanwhile(exports: Exports, internals: Internals) -> None:
    """Its token is of that moment, too."""
    behind_the_first, go_on = asyncio.Event(), asyncio.Event()
    page = internals.present("snapshot_read")

    async def held(point: PointInTime, selection: Any, after: str, size: int) -> Any:
        if after and selection.resource is LISTING:
            behind_the_first.set()
            await go_on.wait()
        return await page(point, selection, after, size)

    internals(snapshot_read=held)
    publishing = asyncio.create_task(exports.publish("a"))
    await behind_the_first.wait()
    await exports.feed.update(listing("L4", "a", 1, price=9), deleted_listing("L8", "a", 1))
    go_on.set()
    await publishing
    manifest = exports.latest("a")
    assert {line["id"]: line["record"]["ListPrice"] for line in exports.lines(manifest)}["L4"] == 4
    assert manifest.records == 5
    assert await exports.feed.summaries(manifest.token, resources="listings") == [("L4", 9), ("L8", "deleted")]


async def test_a_run_that_is_stopped_leaves_the_last_manifest_and_resumes(exports: Exports) -> None:
    """What it had published is not published again, and what it had begun is deleted by the next run."""
    await exports.publish()
    before = {company: exports.latest(company) for company in "ab"}
    await exports.feed.update(listing("L0", "a", 1, price=7), listing("L1", "b", 1, price=7))
    finish, stopped = PublicationFiles.finish, asyncio.CancelledError()

    def cut(files: PublicationFiles) -> Any:
        done = finish(files)
        if files.folder.parts[-2:] == ("b", "listings"):
            raise stopped
        return done

    with internals_set(publication_finish=cut), pytest.raises(asyncio.CancelledError):
        await exports.publish()
    assert exports.latest("b") == before["b"]
    done = exports.latest("a")
    assert done.previous == before["a"].publication
    left = {name[:31] for name in exports.names("b") if name[0] == "2"}
    assert len(left) == 2
    display = await exports.publish()
    assert exports.latest("a") == done
    assert {(each.company, each.resource) for each in display.shown if each.is_complete} == {
        ("b", "listings"),
        ("c", "listings"),
    }
    assert "Resuming" in display.notes[0]
    after = exports.latest("b")
    kept = {name[:31] for name in exports.names("b") if name[0] == "2"}
    assert kept == {before["b"].publication, after.publication}
    assert (await exports.publish()).notes == NOTES


async def test_a_run_that_was_stopped_long_ago_is_not_resumed(exports: Exports, internals: Internals) -> None:
    """Its publications would be old, next to new ones."""
    await exports.publish()
    FolderRunLog(exports.root).add("a/listings")
    internals(publishing_resume_seconds=-1)
    before = exports.latest("a")
    await exports.feed.update(listing("L0", "a", 1, price=7))
    await exports.publish()
    assert exports.latest("a").previous == before.publication


async def test_companies_that_are_named_are_published_whatever_was_before(exports: Exports) -> None:
    """And a stopped run of all resumes afterwards."""
    await exports.publish()
    FolderRunLog(exports.root).add("a/listings")
    before = exports.latest("a")
    await exports.feed.update(listing("L0", "a", 1, price=7))
    assert (await exports.publish("a")).notes == NOTES
    assert exports.latest("a").previous == before.publication
    assert FolderRunLog(exports.root).done == {"a/listings"}


async def test_earlier_publications_and_companies_that_are_gone_are_pruned(exports: Exports) -> None:
    """Files of others in the folder are left alone."""
    manifests = []
    for second in range(3):
        await exports.feed.update(listing("L0", "a", second + 1, price=second + 7))
        await exports.publish()
        manifests.append(exports.latest("a").publication)
    assert {name[:31] for name in exports.names("a") if name[0] == "2"} == {*manifests[1:]}
    gone = exports.root / "gone" / "listings"
    gone.mkdir(parents=True)
    for name in exports.names("a"):
        (gone / name).write_bytes((exports.root / "a" / "listings" / name).read_bytes())
    (exports.root / "notes").mkdir()
    (exports.root / "notes" / "mine.txt").write_text("mine")
    await exports.publish("a")
    assert gone.exists()
    await exports.publish()
    assert not gone.parent.exists()
    assert (exports.root / "notes" / "mine.txt").exists()


async def test_a_file_is_served_for_hours_after_it_was_listed_however_many_publications_follow(
    exports: Exports,
) -> None:
    """And no longer, so that the disk that is needed has a bound."""
    exports = replace(exports, settings=with_settings(exports.settings, exports_kept=1, exports_hours=1.0))
    published: list[Manifest] = []
    for price in range(4):
        await exports.feed.update(listing("L0", "a", price + 1, price=100 + price))
        await exports.publish("a")
        published.append(exports.latest("a"))
    listed = [f"exports/listings/{manifest.files[0].name}" for manifest in published]
    assert [(await exports.feed.get(path))[0] for path in listed] == [200] * 4
    # Two hours later: the second one replaced the first then, the third the second.
    for manifest in published[1:3]:
        path = exports.root / "a" / "listings" / f"{manifest.publication}.json"
        os.utime(path, (time.time() - 7200,) * 2)
    await exports.feed.update(listing("L0", "a", 5, price=7))
    await exports.publish("a")
    assert [(await exports.feed.get(path))[0] for path in listed] == [404, 404, 200, 200]


async def test_the_latest_publication_stays_although_the_clock_was_ahead_before(exports: Exports) -> None:
    """Names sort by time."""
    exports = replace(exports, settings=with_settings(exports.settings, exports_kept=1, exports_hours=0.0))
    await exports.publish("a")
    folder, ahead = exports.root / "a" / "listings", "2099" + exports.latest("a").publication[4:]
    for name in exports.names("a") - {"manifest.json"}:
        (folder / name).rename(folder / (ahead + name[len(ahead) :]))
    await exports.feed.update(listing("L0", "a", 1, price=7))
    await exports.publish("a")
    assert {name[:31] for name in exports.names("a") if name[0] == "2"} == {exports.latest("a").publication}


async def test_a_publication_without_changes_keeps_files_and_manifest(exports: Exports) -> None:
    """Other companies' changes only move the token; what no change tells of is published nevertheless."""
    await exports.publish("a")
    names, before = exports.names("a"), exports.latest("a")
    display = await exports.publish("a")
    assert (exports.names("a"), exports.latest("a")) == (names, before)
    assert {each.resource for each in display.shown if each.is_unchanged} == {"companies", "offices", "listings"}
    await exports.feed.update(listing("L1", "b", 1, price=7))
    await exports.publish("a")
    moved = exports.latest("a")
    assert exports.names("a") == names
    assert moved == msgspec.structs.replace(before, token=moved.token, as_of=moved.as_of)
    assert moved.token != before.token
    # Of a member that is not content there is no change.
    aged = listing("L0", "a", 1, price=0)
    aged["record"]["DaysOnMarket"] = 99
    await exports.feed.update(aged)
    assert await exports.feed.summaries(moved.token, resources="listings") == []
    await exports.publish("a")
    assert {line["id"]: line["record"]["DaysOnMarket"] for line in exports.lines(exports.latest("a"))}["L0"] == 99
    # Come and gone: those who have read the record in between need its removal.
    last = exports.latest("a")
    await exports.feed.update(listing("L20", "a", 1))
    await exports.feed.update(deleted_listing("L20", "a", 2))
    await exports.publish("a")
    assert exports.lines(exports.latest("a")) == exports.lines(last)
    assert exports.latest("a").previous == last.publication


async def test_only_one_run_writes_to_a_folder(exports: Exports) -> None:
    """The other one does nothing."""
    async with TargetFolder(exports.root).locked(print):
        with pytest.raises(PublishLocked, match="Another"):
            await exports.publish()


async def test_files_are_private_unless_their_folder_is_not(exports: Exports) -> None:
    """The service may run as another user."""
    await exports.publish("a")
    assert {path.stat().st_mode & 0o077 for path in exports.root.rglob("*")} == {0}
    exports.root.chmod(0o750)
    await exports.publish("b")
    modes = {path.stat().st_mode & 0o777 for path in (exports.root / "b").rglob("*")}
    assert modes == {0o750, 0o640}


async def test_an_outage_is_waited_for_and_then_named(exports: Exports, internals: Internals) -> None:
    """Nothing of what failed is visible."""
    internals(publishing_retry_seconds=0.0)
    digest, failures = internals.present("snapshot_digest"), [EngineUnavailable("a test")]

    async def broken(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return await digest(*arguments)

    internals(snapshot_digest=broken)
    display = await exports.publish("a")
    assert any("Trying again" in note for note in display.notes)
    before = exports.latest("a")
    failures += [EngineUnavailable("a test")] * 100
    with pytest.raises(PublishUnavailable, match="a test"):
        await exports.publish("a")
    assert exports.latest("a") == before


async def test_a_company_that_does_not_exist_is_refused_by_name(exports: Exports) -> None:
    """Before anything is written."""
    with pytest.raises(PublishError, match="'nobody'"):
        await exports.publish("nobody")
    assert [*exports.root.iterdir()] == [exports.root / ".lock"]
    assert {resource.alias for resource in RESOURCES} >= {"companies"}
