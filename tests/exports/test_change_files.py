"""Files of changes lead from one publication to the next, and a consumer of either reads nothing else."""

import random
import re
from functools import partialmethod
from pathlib import Path
from typing import Any

import orjson
import pytest

import indexer
from brokerage_feed.feed import Feed
from cluster.zstd import zstd
from mappings import LISTING
from service.errors import EngineUnavailable
from service.publishing.target import PublishUnavailable
from tests.consumer.conftest import open_pull
from tests.exports.conftest import Exports
from tests.exports.test_serving import fetched
from tests.feed.feed_client import ConsumerCopy, deleted_listing, listing, source_time
from tests.internals import Internals, internals_set, read_from_files
from tests.records import envelope

_chance = random.Random(6)  # noqa: S311 - repeatable


def house(number: int, second: int = 0) -> dict[str, Any]:
    """Return the envelope of a listing that cannot be compressed, so that a few are smaller than all."""
    record = {"PlatformListingId": f"H{number:02}", "PublicRemarks": _chance.randbytes(3000).hex()}
    return envelope(LISTING, record, updated_at=source_time(second), platform_company_id="a")


@pytest.fixture
async def yesterday(exports: Exports) -> ConsumerCopy:
    """A consumer of the first publication."""
    await exports.feed.update(*map(house, range(20)))
    await exports.publish("a")
    copy = ConsumerCopy("listings")
    manifest = exports.latest("a")
    copy.records = {line["id"]: (line["content"], line["record"]) for line in exports.lines(manifest)}
    copy.token = (await exports.feed.json("exports/listings"))["token"]
    return copy


async def changes(exports: Exports, token: str, **parameters: str) -> dict[str, Any]:
    """Return what is published, with the files of changes since a token."""
    return await exports.feed.json("exports/listings", since=token, **parameters)


async def read(exports: Exports, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Download files, and return their lines."""
    texts = [zstd.decompress((await fetched(exports, file["href"])).body) for file in files]
    return [orjson.loads(line) for text in texts for line in text.splitlines()]


async def apply(exports: Exports, copy: ConsumerCopy) -> None:
    """Bring a copy to the latest publication by its files of changes alone; it is equal to it then."""
    listed = await changes(exports, copy.token)
    lines = await read(exports, listed["changes"])
    assert sum(file["records"] for file in listed["changes"]) == len(lines)
    copy.apply(lines)
    assert copy.digest(copy.records) == (listed["records"], listed["digest"])
    copy.token = listed["token"]


async def test_a_consumer_of_yesterday_reads_the_changes_alone(exports: Exports, yesterday: ConsumerCopy) -> None:
    """New, changed, deleted and moved records; then nothing, and from a token between both publications."""
    await exports.feed.update(house(3, 1), house(30, 1), deleted_listing("H05", "a", 1), listing("H07", "b", 1))
    (_, between) = await exports.feed.changes(yesterday.token)
    await exports.feed.update(house(4, 2), deleted_listing("H06", "a", 2))
    await exports.publish("a")
    (file,) = (await changes(exports, yesterday.token))["changes"]
    assert (file["format"], file["table"]) == ("ndjson.zst", "listings")
    reasons = {line["id"]: line.get("reason") for line in await read(exports, [file])}
    assert {name: reasons[name] for name in ("H03", "H30", "H05", "H07")} == {
        "H03": None,
        "H30": None,
        "H05": "deleted",
        "H07": "out_of_scope",
    }
    assert (await changes(exports, between))["changes"] == [file]
    await apply(exports, yesterday)
    assert (await changes(exports, yesterday.token))["changes"] is None
    await exports.publish("a")
    assert (await changes(exports, between))["changes"] == [file]
    assert (await changes(exports, yesterday.token))["changes"] is None


async def test_several_publications_are_a_chain(exports: Exports, yesterday: ConsumerCopy) -> None:
    """As long as its manifests are kept."""
    first = ConsumerCopy("listings", dict(yesterday.records), yesterday.token)
    for second in (1, 2):
        changed_each_time = house(9, second)
        await exports.feed.update(house(second, second), changed_each_time, deleted_listing(f"H1{second}", "a", second))
        await exports.publish("a")
    listed = (await changes(exports, first.token))["changes"]
    assert len(listed) == 2
    await apply(exports, first)
    await exports.feed.update(house(5, 3))
    await exports.publish("a")
    assert (await changes(exports, yesterday.token))["changes"] is None
    assert (await fetched(exports, listed[0]["href"])).status == 404


async def test_without_a_fitting_token_there_are_none(exports: Exports, yesterday: ConsumerCopy) -> None:
    """Of another scope, of data before a restore, without one; an unreadable one is refused by name."""
    await exports.feed.update(house(3, 1))
    await exports.publish("a")
    assert len((await changes(exports, yesterday.token))["changes"]) == 1
    assert (await exports.feed.json("exports/listings"))["changes"] is None
    other = await exports.feed.token("b", resources="listings")
    assert (await changes(exports, other))["changes"] is None
    assert await exports.feed.problem("exports/listings", since="x") == (400, "invalid-parameter")
    offices = await exports.feed.token(resources="offices")
    assert await exports.feed.problem("exports/listings", since=offices) == (400, "invalid-parameter")
    await indexer.begin_new_epochs(exports.feed.bench.engine(), resources=[LISTING], on_wait=lambda _: None)
    await exports.publish("a")
    assert exports.latest("a").changes is None
    assert (await changes(exports, yesterday.token))["changes"] is None


async def test_changes_that_are_no_smaller_than_all_are_not_kept(
    exports: Exports, yesterday: ConsumerCopy, internals: Internals
) -> None:
    """Their files are gone."""
    internals(published_page=1)
    gone = (deleted_listing(f"H{number}", "a", 1) for number in range(10, 20))
    others = (listing(f"L{number}", "a", 1, price=9) for number in range(0, 10, 2))
    await exports.feed.update(*(house(number, 1) for number in range(10)), *gone, *others)
    await exports.publish("a")
    assert exports.latest("a").changes is None
    assert not [name for name in exports.names("a") if re.search(r"-c\d{4}\.", name)]
    assert (await changes(exports, yesterday.token))["changes"] is None


async def test_a_failure_while_changes_are_written_leaves_the_last_publication(
    exports: Exports, yesterday: ConsumerCopy
) -> None:
    """The next run writes them."""
    before = exports.latest("a")
    await exports.feed.update(house(3, 1))

    async def broken(*_: object) -> None:
        raise EngineUnavailable("a test")

    broken_write = internals_set(publishing_retry_seconds=0.0, published_changes_write=broken)
    with broken_write, pytest.raises(PublishUnavailable):
        await exports.publish("a")
    assert exports.latest("a") == before
    await exports.publish("a")
    await apply(exports, yesterday)


async def test_a_pull_applies_them_and_is_equal(
    exports: Exports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, internals: Internals
) -> None:
    """If a page of changes is not enough; it downloads no file of whole records again."""
    await exports.feed.update(*map(house, range(20)))
    await exports.publish("a")
    monkeypatch.setattr(Feed, "changes", partialmethod(Feed.changes, page_size=1))
    url, key = str(exports.feed.http.make_url("/")), exports.feed.keys["a"]
    sent: list[str] = []
    send = internals.present("export_send")

    async def noting(call: Any, resource: Any, publications: Any, found: Any, sequence: int) -> Any:
        sent.append(found.file.name.partition("-")[2].partition("-")[2])
        return await send(call, resource, publications, found, sequence)

    internals(export_send=noting)
    for second in range(2):
        async with open_pull(url, tmp_path, key=key, resources=("offices", "listings")) as (pull, _):
            read_from_files(pull, tmp_path / ".files")
            await pull.catch_up()
            count = pull.copy.count("listings")
            mine = {row.id: row.content for row in pull.copy.rows("listings")}
        digest = await exports.feed.json("digest/listings")
        assert ConsumerCopy.digest({name: (content, {}) for name, content in mine.items()}) == (
            digest["count"],
            digest["digest"],
        )
        assert count == digest["count"]
        if not second:
            assert sent == ["00001.ndjson.zst"] * 2
            await exports.feed.update(*(house(number, 1) for number in range(4)), deleted_listing("H05", "a", 1))
            await exports.publish("a")
            await exports.feed.update(house(9, 2))
            sent.clear()
    assert sent == ["c0001.ndjson.zst"]
