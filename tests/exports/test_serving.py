"""Manifests and files over HTTP: who gets them, in parts, and until when."""

import asyncio
import base64
import socket
from dataclasses import replace
from hashlib import sha256
from typing import NamedTuple

import msgspec
import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer
from multidict import CIMultiDictProxy

import indexer
from mappings import LISTING
from service.app import create_app
from service.audit.reads import WrittenAudit
from service.exports.publications import encode_manifest
from service.keys.store import KeyStore
from service.limits.admission import RequestKind
from service.services import SERVICES, Services
from tests.exports.conftest import Exports
from tests.feed.feed_client import listing
from tests.internals import Internals
from tests.service_settings import with_settings
from tests.waiting import until


class Answer(NamedTuple):
    """A response that was read to its end."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes


async def fetched(exports: Exports, url: str, key: str = "a", method: str = "GET", **headers: str) -> Answer:
    """Return the response to a request."""
    given = {"x-api-key": exports.feed.keys[key], **{name.replace("_", "-"): text for name, text in headers.items()}}
    async with exports.feed.http.request(method, url, headers=given) as answer:
        return Answer(answer.status, answer.headers, await answer.read())


def services(exports: Exports) -> Services:
    """Return the services of the application."""
    found: Services = exports.feed.http.server.app[SERVICES]  # type: ignore[attr-defined]
    return found


async def test_a_manifest_lists_files_and_their_bytes_are_those_of_the_disk(exports: Exports) -> None:
    """By the key of the company, and by a key of several that names it."""
    await exports.publish()
    for key, parameters in (("a", {}), ("a", {"platform_company_id": "a"}), ("all", {"platform_company_id": "a"})):
        listed = await exports.feed.json("exports/listings", key, **parameters)
        manifest = exports.latest("a")
        assert (listed["company"], listed["records"], listed["digest"]) == ("a", 5, manifest.digest)
        (file,) = listed["files"]
        answer = await fetched(exports, file["href"], key)
        data = answer.body
        assert data == (exports.root / "a" / "listings" / manifest.files[0].name).read_bytes()
        assert (len(data), sha256(data).hexdigest()) == (file["bytes"], file["sha256"])
        assert await exports.feed.summaries(listed["token"], key, **parameters) == []
    digest = base64.b64encode(sha256(data).digest()).decode()
    assert answer.headers["Repr-Digest"] == f"sha-256=:{digest}:"
    assert answer.headers["Content-Type"] == "application/zstd"
    assert answer.headers["Cache-Control"] == "private, no-cache"
    parts = [{"Range": "bytes=0-1"}, {"If-None-Match": answer.headers["ETag"]}]
    for url, headers in (("/v1/exports/listings", {}), (file["href"], {}), *((file["href"], part) for part in parts)):
        vary = (await fetched(exports, url, "a", **headers)).headers["Vary"]
        assert {"x-api-key", "Authorization"} <= {*vary.split(", ")}


async def test_a_file_comes_in_parts_and_only_if_it_is_needed(exports: Exports, internals: Internals) -> None:
    """By GET, and by HEAD with the same headers; more than one call of the kernel is needed."""
    internals(export_call_bytes=7)
    await exports.publish("a")
    (file,) = (await exports.feed.json("exports/listings"))["files"]
    url, size, tag = file["href"], file["bytes"], f'"{file["sha256"]}"'
    whole = (await fetched(exports, url)).body
    first, rest = await fetched(exports, url, Range="bytes=0-99"), await fetched(exports, url, Range="bytes=100-")
    assert (first.status, first.headers["Content-Range"]) == (206, f"bytes 0-99/{size}")
    assert first.body + rest.body == whole
    assert {answer.headers["ETag"] for answer in (first, rest)} == {tag}
    assert (await fetched(exports, url, Range="bytes=5-", If_Range='"other"')).status == 200
    assert (await fetched(exports, url, If_None_Match=tag)).status == 304
    refused = await fetched(exports, url, If_Match='"other"')
    assert (refused.status, orjson.loads(refused.body)["code"]) == (412, "precondition-failed")
    refused = await fetched(exports, url, Range=f"bytes={size}-")
    assert (refused.status, refused.headers["Content-Range"]) == (416, f"bytes */{size}")
    head = await fetched(exports, url, method="HEAD")
    assert (head.status, head.headers["Content-Length"], head.body) == (200, str(size), b"")
    assert services(exports).limits.admission.limits[RequestKind.DOWNLOAD].running == 0


async def test_who_may_not_see_everything_gets_no_files(exports: Exports) -> None:
    """Nor does a key of another company, nor one of several that names none."""
    await exports.publish()
    (file,) = (await exports.feed.json("exports/listings"))["files"]
    path = file["href"].removeprefix("/v1/")
    for target in ("exports/listings", path):
        for key in ("poor", "shown"):
            status, body = await exports.feed.get(target, key)
            assert (status, orjson.loads(body)["code"]) == (403, "files-forbidden")
            assert b"/v1/snapshot/listings" in body
        assert await exports.feed.problem(target, "ab") == (400, "invalid-parameter")
        assert await exports.feed.problem(target, "b", platform_company_id="a") == (403, "forbidden")
    assert await exports.feed.problem(path, "b") == (404, "not-published")
    assert (await exports.feed.json("exports/offices", "poor"))["records"] == 1
    assert (await exports.feed.json("exports/offices", "shown"))["records"] == 1
    assert await exports.feed.problem("exports/houses") == (404, "not-found")


async def test_no_name_leads_to_another_file(exports: Exports) -> None:
    """Also of files that lie there but that no manifest lists."""
    await exports.publish("a")
    folder = exports.root / "a" / "listings"
    (folder / "20260101T000000000000Z-00000000-00001.ndjson.zst").write_bytes(b"secret")
    for name in (
        "..%2f..%2f..%2fetc%2fpasswd",
        "manifest.json",
        "%2e%2e",
        "20260101T000000000000Z-00000000-00001.ndjson.zst",
        "20260101T000000000000Z-00000000-00001.ids",
        "20260101T000000000000Z-00000000-00001.listings.parquet",
        "20260101T000000000000Z-00000000-00001.%2e%2e%2f.parquet",
        "20260101T000000000000Z-00000000-00001.ndjson.zst%00",
    ):
        status, body = await exports.feed.get(f"exports/listings/{name}")
        assert (name, status) in {(name, 400), (name, 404)}
        assert b"secret" not in body, name
    (listed,) = folder.glob("*.ids")
    assert (await exports.feed.get(f"exports/listings/{listed.name}"))[0] == 404


async def test_without_current_files_the_snapshot_is_named(exports: Exports) -> None:
    """Before anything is published, without a folder, after a restore, and if the token is of another view."""
    assert await exports.feed.problem("exports/listings") == (404, "not-published")
    await exports.publish()
    (file,) = (await exports.feed.json("exports/listings"))["files"]
    without = with_settings(exports.settings, exports="")
    async with TestClient(TestServer(create_app(without, exports.feed.bench.connection))) as http:
        headers = {"x-api-key": exports.feed.keys["a"]}
        async with http.get("/v1/exports/listings", headers=headers) as answer:
            assert (answer.status, (await answer.json())["code"]) == (404, "not-published")
    (exports.root / "b" / "listings" / "manifest.json").write_bytes(b"{")
    assert await exports.feed.problem("exports/listings", "b") == (404, "not-published")
    await indexer.begin_new_epochs(exports.feed.bench.engine(), resources=[LISTING], on_wait=lambda _: None)
    assert await exports.feed.problem("exports/listings") == (404, "not-published")
    assert await exports.feed.problem(file["href"].removeprefix("/v1/")) == (404, "not-published")
    await exports.publish()
    assert (await exports.feed.json("exports/listings"))["records"] == 5
    manifest = exports.latest("a")
    foreign = msgspec.structs.replace(manifest, token=await exports.feed.token("ab", resources="listings"))
    (exports.root / "a" / "listings" / "manifest.json").write_bytes(encode_manifest(foreign))
    assert await exports.feed.problem("exports/listings") == (404, "not-published")


async def test_files_of_the_publication_before_are_served_until_it_is_pruned(exports: Exports) -> None:
    """A download that began before a publication ends after it."""
    await exports.publish("a")
    (before,) = (await exports.feed.json("exports/listings"))["files"]
    await exports.feed.update(listing("L0", "a", 1, price=7))
    await exports.publish("a")
    (after,) = (await exports.feed.json("exports/listings"))["files"]
    assert after["href"] != before["href"]
    assert (await fetched(exports, before["href"])).status == 200
    await exports.feed.update(listing("L0", "a", 2, price=8))
    await exports.publish("a")
    assert (await fetched(exports, before["href"])).status == 404


async def test_a_revoked_key_gets_nothing_more(exports: Exports) -> None:
    """From the next request on, as everywhere."""
    await exports.publish("a")
    (file,) = (await exports.feed.json("exports/listings"))["files"]
    bench = exports.feed.bench
    await KeyStore(bench.client, bench.connection.keys_index).revoke(exports.feed.keys["a"][3:13])
    await until_refused(exports, file["href"])


async def until_refused(exports: Exports, url: str) -> None:
    """Wait until the key is refused, which takes as long as keys are cached."""
    async with asyncio.timeout(60):
        while (await fetched(exports, url)).status != 401:  # noqa: ASYNC110 - another cache
            await asyncio.sleep(0.05)


async def test_a_download_is_recorded_for_the_audit(exports: Exports) -> None:
    """All records of the file, also for a part of it; nothing for HEAD, or a range outside."""
    await exports.publish("a")
    (file,) = (await exports.feed.json("exports/listings"))["files"]
    audit = services(exports).of(WrittenAudit)
    audit.log.take_rows()
    await fetched(exports, file["href"], method="HEAD")
    await fetched(exports, file["href"], Range=f"bytes={file['bytes']}-")
    assert audit.log.take_rows() == []
    await fetched(exports, file["href"], Range="bytes=0-0")
    (row,) = audit.log.take_rows()
    assert (row.about.resource, row.count, row.first, row.last) == ("listings", 5, "L0", "L8")


def _enlarge(exports: Exports, size: int) -> None:
    """Make the file of company a as large, also by its manifests."""
    manifest = exports.latest("a")
    path = exports.root / "a" / "listings" / manifest.files[0].name
    with path.open("r+b") as file:
        file.truncate(size)
    for name in ("manifest.json", f"{manifest.publication}.json"):
        text = (path.parent / name).read_bytes()
        stated = f'"bytes": {manifest.files[0].bytes}'.encode()
        assert stated in text
        (path.parent / name).write_bytes(text.replace(stated, f'"bytes": {size}'.encode()))


async def test_the_kernel_holds_little_of_a_file_that_is_not_read(exports: Exports) -> None:
    """What it holds is sent even if the key is revoked."""
    await exports.publish("a")
    _enlarge(exports, 2 * 1024**2)  # less than what the kernel would keep
    limit = services(exports).limits.admission.limits[RequestKind.DOWNLOAD]
    url = exports.feed.http.make_url((await exports.feed.json("exports/listings"))["files"][0]["href"])
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, (url.host, url.port))
        head = f"GET {url.path_qs} HTTP/1.1\r\nHost: x\r\nx-api-key: {exports.feed.keys['a']}\r\n\r\n"
        await loop.sock_sendall(client, head.encode())
        await until(lambda: limit.running == 1)
        for _ in range(2):
            assert len((await fetched(exports, url.path_qs)).body) == 2 * 1024**2
            await until(lambda: limit.running < 2)
        assert limit.running == 1


async def test_a_client_that_does_not_read_is_closed_and_holds_nothing(
    exports: Exports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is larger than what the kernel keeps for it."""
    await exports.publish("a")
    large = 64 * 1024**2
    _enlarge(exports, large)
    sends = services(exports).limits.unread
    monkeypatch.setattr(sends, "limits", replace(sends.limits, stall_seconds=0.3, least_bytes_per_second=10**9))
    limit = services(exports).limits.admission.limits[RequestKind.DOWNLOAD]
    url = exports.feed.http.make_url((await exports.feed.json("exports/listings"))["files"][0]["href"])
    reader, writer = await asyncio.open_connection(url.host, url.port, limit=1024)
    writer.write(f"GET {url.path_qs} HTTP/1.1\r\nHost: x\r\nx-api-key: {exports.feed.keys['a']}\r\n\r\n".encode())
    assert b" 200 " in await reader.readline()
    await until(lambda: limit.running == 1)
    await until(lambda: limit.running == 0)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(large)
    writer.close()


async def test_downloads_are_shared_between_keys(exports: Exports) -> None:
    """A key leaves slots for others."""
    await exports.publish()
    limit = services(exports).limits.admission.limits[RequestKind.DOWNLOAD]
    limit.slots = 2
    (file,) = (await exports.feed.json("exports/listings"))["files"]
    held = limit.slot(exports.feed.keys["a"][3:13]).hold()
    assert await exports.feed.problem(file["href"].removeprefix("/v1/")) == (429, "too-many-at-once")
    held.release()
    assert (await fetched(exports, file["href"])).status == 200
