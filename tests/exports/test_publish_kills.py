"""A publication that is killed again and again, under updates and rebuilds, is never visible unless it is whole."""

import asyncio
import random
import subprocess
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256

from brokerage_feed.terminal import ExitCode
from service.exports.publications import Manifest, decode_manifest
from service.publishing.target import TargetFolder
from tests.consumer.conftest import COMMAND
from tests.consumer.service_process import environment
from tests.exports.conftest import Exports
from tests.feed.feed_client import ConsumerCopy, deleted_listing, listing
from tests.waiting import until

NAMES = [f"L{at}" for at in range(40)]


@asynccontextmanager
async def publishing(exports: Exports) -> AsyncIterator[Process]:
    """Start `brokerage index publish`; it is gone afterwards."""
    connection = exports.feed.bench.connection
    given = environment(ELASTICSEARCH_URL=connection.url[0], BROKERAGE_INDEX_PREFIX=connection.prefix)
    process = await asyncio.create_subprocess_exec(
        *(COMMAND, "index", "publish", str(exports.root), "--json"), env=given, stdout=subprocess.PIPE
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def written(exports: Exports) -> set[str]:
    """Return the names of all files."""
    return {path.name for path in exports.root.rglob("*.*")}


async def kill_after(exports: Exports, process: Process, before: set[str], files: int) -> None:
    """Kill a process that has written so many new files, unless it has ended."""
    await until(lambda: len(written(exports) - before) >= files or process.returncode is not None)
    if process.returncode is None:
        process.kill()


def whole(exports: Exports, manifest: Manifest) -> ConsumerCopy:
    """Return a copy of what a publication holds."""
    records = {line["id"]: (line["content"], line["record"]) for line in exports.lines(manifest)}
    return ConsumerCopy(manifest.resource, records)


async def require_current(exports: Exports, manifest: Manifest, copy: ConsumerCopy) -> None:
    """Check that a copy is what is served now, with the changes since a publication."""
    scope = {"platform_company_id": manifest.company}
    copy.apply((await exports.feed.changes(manifest.token, "all", **scope))[0])
    digest = await exports.feed.json(f"digest/{manifest.resource}", "all", **scope)
    assert copy.digest(copy.records) == (digest["count"], digest["digest"])


async def check(exports: Exports) -> int:
    """Check every manifest that is visible; return how many there are."""
    count = 0
    for path in exports.root.rglob("manifest.json"):
        manifest = decode_manifest(path.read_bytes())
        for file in (*manifest.files, *(manifest.changes or ())):
            data = (path.parent / file.name).read_bytes()
            assert (len(data), sha256(data).hexdigest()) == (file.bytes, file.sha256)
        copy = whole(exports, manifest)
        assert copy.digest(copy.records) == (manifest.records, manifest.digest)
        await require_current(exports, manifest, copy)
        earlier = await TargetFolder(exports.root).publications.earlier(manifest)
        if earlier is not None and manifest.changes is not None:
            copy = whole(exports, earlier)
            copy.apply(exports.lines_of(manifest, manifest.changes))
            await require_current(exports, manifest, copy)
        count += 1
    return count


async def test_every_manifest_that_was_ever_visible_is_whole(
    exports: Exports, amount: Callable[[int, int], int]
) -> None:
    """And equal to the state of its token: with the changes since, it is what is served now.

    So is the publication before, with its files of changes.
    """
    chance, rounds = random.Random(5), amount(2, 30)  # noqa: S311 - repeatable
    for second in range(1, rounds + 1):
        before, files = written(exports), chance.randint(1, 14)
        async with publishing(exports) as process:
            if second % 5 == 0:
                await exports.feed.rebuild(*(listing(name, chance.choice("ab"), second) for name in NAMES))
            else:
                changed = chance.sample(NAMES, 6)
                await exports.feed.update(
                    *(listing(name, chance.choice("ab"), second, price=second) for name in changed[1:]),
                    deleted_listing(changed[0], "a", second),
                )
            await kill_after(exports, process, before, files)
        await check(exports)
    async with publishing(exports) as process:
        assert await process.wait() == ExitCode.SUCCESS
    assert await check(exports) == 3 * 3
    assert not (exports.root / ".publishing").exists()
