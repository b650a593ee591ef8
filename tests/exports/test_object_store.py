"""Published files in an object store: redirects, who gets them, and what a store does that is away."""

import asyncio
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from yarl import URL

from cluster.settings import SettingError
from service.app import build_services
from service.audit.reads import WrittenAudit
from service.exports.capability import check_files
from service.exports.object_store import Patience
from service.exports.settings import ExportsSettings
from service.health.checks import FindingState
from service.limits.admission import RequestKind
from tests.consumer.conftest import open_pull
from tests.exports.stored_exports import PLACE, Stored, store_endpoint, stored
from tests.exports.test_serving import Answer
from tests.feed.feed_client import ConsumerCopy, listing
from tests.internals import Internals, read_from_files
from tests.network.cuts import in_chunk
from tests.network.link import Cut
from tests.service_settings import with_settings

__all__ = ["store_endpoint", "stored"]


async def get(url: str, **headers: str) -> Answer:
    """Return the response of the store to a client without credentials."""
    async with aiohttp.ClientSession() as session, session.get(URL(url, encoded=True), headers=headers) as answer:
        return Answer(answer.status, answer.headers, await answer.read())


async def test_files_are_reached_by_signed_redirects(stored: Stored) -> None:
    """In parts, too; HEAD and preconditions stay with the service, since URLs are signed for GET."""
    await stored.publish()
    (file,) = (await stored.feed.json("exports/listings"))["files"]
    url, size, tag = file["href"], file["bytes"], f'"{file["sha256"]}"'
    redirect = await stored.fetched(url)
    assert (redirect.status, redirect.body, redirect.headers["Cache-Control"]) == (307, b"", "no-store")
    assert (redirect.headers["ETag"], redirect.headers["Accept-Ranges"]) == (tag, "bytes")
    location = redirect.headers["Location"]
    assert URL(location).query["X-Amz-Expires"] == "300"
    assert stored.feed.keys["a"] not in location
    whole = await get(location)
    assert sha256(whole.body).hexdigest() == file["sha256"]
    assert whole.headers["Content-Type"] == "application/zstd"
    part = await get(
        (await stored.fetched(url, Range="bytes=100-", If_Range='"other"')).headers["Location"], Range="bytes=100-"
    )
    assert (part.status, part.body) == (206, whole.body[100:])
    head = await stored.fetched(url, method="HEAD")
    assert (head.status, head.headers["Content-Length"], "Location" in head.headers) == (200, str(size), False)
    assert head.headers["Content-Type"] == "application/zstd"
    assert (await stored.fetched(url, If_None_Match=tag)).status == 304
    assert (await stored.fetched(url, If_Match='"other"')).status == 412
    assert (await stored.fetched(url, Range=f"bytes={size}-")).status == 416
    assert stored.services.limits.admission.limits[RequestKind.DOWNLOAD].running == 0


async def test_who_may_not_see_everything_is_not_redirected(stored: Stored) -> None:
    """Nor is a key of another company; the audit has the records of a file before anyone can download it."""
    await stored.publish()
    (file,) = (await stored.feed.json("exports/listings"))["files"]
    path = file["href"].removeprefix("/v1/")
    assert await stored.feed.problem(path, "poor") == (403, "files-forbidden")
    assert await stored.feed.problem(path, "b") == (404, "not-published")
    assert await stored.feed.problem(path, "b", platform_company_id="a") == (403, "forbidden")
    audit = stored.services.of(WrittenAudit)
    audit.log.take_rows()
    await stored.fetched(file["href"], method="HEAD")
    assert audit.log.take_rows() == []
    await stored.fetched(file["href"])
    (row,) = audit.log.take_rows()
    assert (row.about.resource, row.count, row.first, row.last) == ("listings", 5, "L0", "L8")


async def test_a_pull_follows_redirects_and_resumes_what_is_cut(stored: Stored, tmp_path: Path) -> None:
    """Files of records and of changes; the store never sees the key."""
    await stored.publish("a")
    url, key, proxy = str(stored.feed.http.make_url("/")), stored.feed.keys["a"], stored.proxy

    def cut_first() -> Cut | None:
        return (
            in_chunk
            if proxy.heads[-1].startswith("GET") and ".ndjson.zst" in proxy.heads[-1] and not proxy.cuts
            else None
        )

    for second in range(2):
        async with open_pull(url, tmp_path, key=key, resources=("listings",)) as (pull, _):
            read_from_files(pull, tmp_path / ".files")
            proxy.cutting = cut_first
            await pull.catch_up()
            mine: dict[str, tuple[str, Any]] = {row.id: (row.content, {}) for row in pull.copy.rows("listings")}
        digest = await stored.feed.json("digest/listings")
        assert ConsumerCopy.digest(mine) == (digest["count"], digest["digest"])
        if not second:
            assert proxy.cuts == 1
            await stored.feed.update(listing("L0", "a", 1, price=7))
            await stored.publish("a")
    downloads = [piece for piece in proxy.asked if b".ndjson.zst?" in piece.partition(b"\r\n")[0]]
    assert len(downloads) >= 2
    assert b"range: bytes=" in downloads[1].lower()
    assert not any(b"if-range" in piece.lower() for piece in downloads)
    assert not any(key.encode() in piece for piece in proxy.asked)


async def test_curl_keeps_the_key_from_the_store(stored: Stored, tmp_path: Path) -> None:
    """As the documentation calls it, and to continue a file."""
    await stored.publish("a")
    (file,) = (await stored.feed.json("exports/listings"))["files"]
    path, key = tmp_path / "file", stored.feed.keys["a"]
    path.write_bytes(bytes(stored.store.get(f"a/listings/{URL(file['href']).name}").bytes())[:100])
    url = str(stored.feed.http.make_url(file["href"]))
    command = ("curl", "-sS", "--fail", "-L", "-H", f"Authorization: Bearer {key}", "-o", str(path), "-C", "-", url)
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0
    assert sha256(path.read_bytes()).hexdigest() == file["sha256"]
    (asked,) = [piece.lower() for piece in stored.proxy.asked if b".zst?" in piece.partition(b"\r\n")[0]]
    assert b"range: bytes=100-" in asked
    assert key.encode().lower() not in asked


async def test_a_store_that_is_away_is_said_to_be(stored: Stored) -> None:
    """With a time to retry, and not as if nothing were published; everything else is served."""
    await stored.publish("a")
    (file,) = (await stored.feed.json("exports/listings"))["files"]
    stored.proxy.refuse()
    for url in ("/v1/exports/listings", file["href"]):
        answer = await stored.fetched(url)
        assert (answer.status, orjson.loads(answer.body)["code"]) == (503, "temporarily-unavailable")
        assert answer.headers["Retry-After"]
    assert (await stored.feed.json("digest/listings"))["count"] == 5
    await stored.proxy.heal()
    assert (await stored.fetched(file["href"])).status == 307


async def test_an_object_that_is_too_large_for_a_manifest_is_not_read(
    stored: Stored, internals: Internals, caplog: pytest.LogCaptureFixture
) -> None:
    internals(published_read_bytes=2**16)
    await stored.publish("a")
    assert (await stored.feed.json("exports/listings"))["records"] == 5
    stored.store.put("a/listings/manifest.json", b" " * (2**16 + 1))
    assert await stored.feed.problem("exports/listings") == (404, "not-published")
    assert "it has 65,537 bytes, more than 65,536" in caplog.text


async def test_doctor_says_whether_files_can_be_read(stored: Stored, tmp_path: Path) -> None:
    """In a store and in a folder."""

    async def found(exports: str = PLACE) -> tuple[FindingState, str]:
        settings = with_settings(stored.settings, exports=exports)
        bench = stored.feed.bench
        finding = await check_files(build_services(bench.client, settings, bench.connection))
        return finding.state, finding.detail

    assert await found() == (FindingState.OK, f"{PLACE} can be read")
    assert await found(exports=str(tmp_path)) == (FindingState.OK, f"{tmp_path} can be read")
    assert await found(exports="") == (FindingState.OK, "off (BROKERAGE_EXPORTS)")
    assert (await found(exports=str(tmp_path / "none")))[0] is FindingState.WARNING
    state, detail = await found(exports="s3://absent/files")
    assert (state, "s3://absent/files" in detail) == (FindingState.WARNING, True)
    stored.proxy.refuse()
    state, detail = await found()
    assert (state, PLACE in detail) == (FindingState.WARNING, True)


async def test_a_store_that_hangs_holds_few_requests_and_not_for_long(stored: Stored, internals: Internals) -> None:
    """The others are refused at once, so that those for single records find a place."""
    await stored.publish("a")
    internals(store_patience=Patience(0.1, 0.1))
    stored.proxy.freeze()
    assert await stored.feed.problem("exports/listings") == (503, "temporarily-unavailable")
    await stored.proxy.heal()
    internals(store_requests=0)
    assert await stored.feed.problem("exports/listings") == (503, "temporarily-unavailable")


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("ftp://host/files", "s3://bucket/prefix"),
        ("s3://", "s3://bucket/prefix"),
        ("az://container/files", "Account must be specified"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused(place: str, says: str) -> None:
    """By its setting, before any request."""
    with pytest.raises(SettingError, match=f"BROKERAGE_EXPORTS .*{says}"):
        ExportsSettings(exports=place)


def test_without_its_package_a_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra that has it."""
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(SettingError, match="pip install obstore"):
        ExportsSettings(exports=PLACE)
    with pytest.raises(SettingError, match="BROKERAGE_EXPORTS_URL_SECONDS is 0"):
        ExportsSettings(exports_url_seconds=0)
