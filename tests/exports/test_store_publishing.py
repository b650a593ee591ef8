"""Publications to an object store: whole or invisible, resumed, and one at a time."""

import asyncio
import os
import subprocess
import tempfile
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerage.command import main
from brokerage_feed.terminal import ExitCode
from cluster.zstd import zstd
from service.exports.publications import Manifest, decode_manifest
from service.publishing.store_target import TargetStore
from service.publishing.target import PublishError, PublishLocked, PublishUnavailable, scratch_folder
from tests.consumer.conftest import COMMAND
from tests.consumer.service_process import environment
from tests.exports.stored_exports import PLACE, Stored, store_endpoint, stored
from tests.feed.feed_client import listing
from tests.internals import Internals
from tests.network.http import Reply, Request, http
from tests.network.server import serving
from tests.waiting import until

__all__ = ["store_endpoint", "stored"]


def latest(stored: Stored, company: str = "a", resource: str = "listings") -> Manifest:
    """Return the latest manifest."""
    return decode_manifest(bytes(stored.store.get(f"{company}/{resource}/manifest.json").bytes()))


def check(stored: Stored) -> int:
    """Check every manifest that is visible; return how many there are."""
    manifests = [name for name in stored.names() if name.endswith("/manifest.json")]
    for name in manifests:
        folder, count = name.rpartition("/")[0], 0
        manifest = decode_manifest(bytes(stored.store.get(name).bytes()))
        for file in (*manifest.files, *(manifest.changes or ())):
            data = bytes(stored.store.get(f"{folder}/{file.name}").bytes())
            assert (len(data), sha256(data).hexdigest()) == (file.bytes, file.sha256)
        for file in manifest.whole_files:
            count += zstd.decompress(bytes(stored.store.get(f"{folder}/{file.name}").bytes())).count(b"\n")
        assert count == manifest.records
    return len(manifests)


async def test_a_killed_run_leaves_the_latest_manifests_and_is_resumed(stored: Stored, internals: Internals) -> None:
    """Its lock is taken over once it expires, and nothing of it is left."""
    internals(store_expiry_seconds=1.0)
    await stored.publish()
    await stored.feed.update(listing("L0", "a", 1, price=7), listing("L1", "b", 1, price=7))
    objects = stored.names()
    connection = stored.feed.bench.connection
    given = environment(ELASTICSEARCH_URL=connection.url[0], BROKERAGE_INDEX_PREFIX=connection.prefix)
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "index", "publish", PLACE), env=given, stdout=subprocess.DEVNULL
    )
    # Within the second publication: companies and their resources come one after another.
    try:
        await until(lambda: any(".publishing/" in name for name in stored.names()))
        await until(lambda: len({name for name in stored.names() - objects if name.endswith(".zst")}) >= 2)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    assert ".lock" in stored.names()
    check(stored)
    display = await stored.publish()
    assert any("locked by" in note for note in display.notes)
    assert any("Resuming" in note for note in display.notes)
    assert check(stored) == 3 * 3
    assert not {name for name in stored.names() if name.startswith(".")}
    for company in "ab":
        kept = {name.rpartition("/")[2][:31] for name in stored.names(f"{company}/listings") if "/2026" in name}
        assert len(kept) == 2


async def test_earlier_publications_and_companies_that_are_gone_are_pruned(stored: Stored) -> None:
    """Objects of others are left alone; changes lead from the publication before."""
    await stored.publish()
    before = latest(stored)
    for name in stored.names("a/listings"):
        stored.store.copy(name, name.replace("a/", "gone/", 1))
    stored.store.put("notes/mine.txt", b"mine")
    stored.store.put("a/listings/20260101T000000000000Z-00000000-00009.ndjson.zst", b"of a run that was killed")
    await stored.feed.update(listing("L0", "a", 1, price=7))
    await stored.publish()
    after = latest(stored)
    assert (after.previous, len(after.changes or ())) == (before.publication, 1)
    assert not stored.names("gone")
    assert stored.names("notes") == {"notes/mine.txt"}
    objects = stored.names()
    await stored.publish("a")
    assert (stored.names(), latest(stored)) == (objects, after)
    await stored.feed.update(listing("L0", "a", 2, price=8))
    await stored.publish("a")
    assert not any(before.publication in name or "20260101T" in name for name in stored.names())


async def test_only_one_run_writes_to_a_store(stored: Stored, internals: Internals) -> None:
    """The other one sees that the lock is renewed."""
    internals(store_poll_seconds=0.05)
    target = TargetStore(PLACE)
    async with target.locked(print):
        other = asyncio.create_task(stored.publish("a"))
        while not other.done():
            await asyncio.to_thread(target._lock.renew)
            await asyncio.sleep(0.05)
        with pytest.raises(PublishLocked, match="Another"):
            await other
    await stored.publish("a")


async def test_a_run_that_has_lost_its_lock_replaces_nothing(stored: Stored) -> None:
    """Another one has taken it over while it did not run."""
    await stored.publish("a")
    before, target = latest(stored), TargetStore(PLACE)
    async with target.locked(print):
        stored.store.put(".lock", b"another run\n")
        with pytest.raises(PublishLocked, match="another run"):
            await asyncio.to_thread(target.replace, target.folder("a", "listings") / "manifest.json", b"{}")
    assert latest(stored) == before
    assert bytes(stored.store.get(".lock").bytes()) == b"another run\n"


def test_what_killed_runs_have_left_on_this_host_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing of runs that are not killed, or of others."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, other = tmp_path / f"brokerage-publish-{os.getuid()}-left", tmp_path / "other"
    left.mkdir()
    other.mkdir()
    with scratch_folder() as first, scratch_folder() as second:
        assert {*tmp_path.iterdir()} == {first, second, other}
        assert first.stat().st_mode & 0o077 == 0
    assert [*tmp_path.iterdir()] == [other]


async def test_a_store_that_ignores_conditions_is_refused(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two publications at once could not be kept apart."""

    async def agree(_: Request) -> Reply:
        return Reply(headers={"ETag": '"1"'})

    async with serving(http(agree)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        with pytest.raises(PublishError, match="ignores the conditions"):
            await stored.publish("a")


@pytest.mark.parametrize(
    ("target", "says"), [("ftp://host/files", "s3://bucket/prefix"), ("az://container", "Account must be specified")]
)
def test_a_target_that_cannot_be_used_is_a_usage_error(target: str, says: str) -> None:
    """Before anything is connected to."""
    ended = CliRunner().invoke(main, ["index", "publish", target], terminal_width=200)
    assert (ended.exit_code, target in ended.output, says in ended.output) == (ExitCode.USAGE, True, True)


async def test_a_store_that_is_away_or_refuses_is_named(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its URL; what refuses will do so again."""
    stored.proxy.refuse()
    with pytest.raises(PublishUnavailable, match=PLACE):
        await stored.publish("a")
    await stored.proxy.heal()
    with pytest.raises(PublishError, match="s3://absent/files does not exist"):
        async with TargetStore("s3://absent/files").locked(print):
            pass

    async def forbid(_: Request) -> Reply:
        return Reply(status=403)

    async with serving(http(forbid)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        with pytest.raises(PublishError, match=f"{PLACE} refuses"):
            await stored.publish("a")
