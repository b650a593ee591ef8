"""What others put into the folder of published files: links, pipes, folders and bombs, also in place of folders."""

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

import service.exports.publications
from cluster.zstd import zstd
from service.exports.capability import check_files
from service.exports.publications import identifiers_name
from service.exports.stores import open_below
from service.health.checks import FindingState
from service.publishing.target import PublishError, TargetFolder
from tests.exports.conftest import Exports
from tests.exports.test_serving import fetched, services
from tests.internals import Internals

SECRET = b"nothing that a client may read"


def _link(path: Path) -> None:
    (outside := path.parents[2] / "outside").write_bytes(SECRET * 1000)
    path.symlink_to(outside)


def _link_inside(path: Path) -> None:
    path.symlink_to(path.with_name("manifest.json"))


def _folder(path: Path) -> None:
    path.mkdir()


REPLACEMENTS: dict[str, Callable[[Path], None]] = {
    "link": _link,
    "link inside": _link_inside,
    "pipe": os.mkfifo,
    "folder": _folder,
}


@pytest.mark.parametrize("kind", REPLACEMENTS)
@pytest.mark.parametrize("name", ["manifest.json", "data"])
async def test_what_is_no_file_is_not_served(
    exports: Exports, caplog: pytest.LogCaptureFixture, kind: str, name: str
) -> None:
    await exports.publish()
    (file,) = (await exports.feed.json("exports/listings", "a"))["files"]
    published = exports.root / "a" / "listings" / exports.latest("a").files[0].name
    path = published if name == "data" else published.with_name(name)
    path.unlink()
    if (kind, name) == ("link inside", "manifest.json"):
        path.symlink_to(next(published.parent.glob("*Z-*.json")))
    else:
        REPLACEMENTS[kind](path)
    url = file["href"] if name == "data" else "/v1/exports/listings"
    with caplog.at_level(logging.ERROR, "service"):
        answer = await fetched(exports, url)
    assert answer.status == 404
    assert b"not-published" in answer.body
    assert SECRET not in answer.body
    assert f"{path} " in caplog.text
    finding = await check_files(services(exports))
    assert (finding.state is FindingState.OK) == (kind == "folder")
    if kind != "folder":
        assert f"a/listings/{path.name} is a link or no regular file" in finding.detail


MANIFESTS: dict[str, Callable[[dict[str, Any]], object]] = {
    "no SHA-256": lambda manifest: manifest["files"][0].update(sha256="zz"),
    "no format": lambda manifest: manifest["files"][0].update(format="csv"),
    "no size": lambda manifest: manifest["files"][0].update(bytes=10**18),
    "of another company": lambda manifest: manifest.update(company="b"),
    "of another resource": lambda manifest: manifest.update(resource="offices"),
}


@pytest.mark.parametrize("kind", MANIFESTS)
async def test_a_manifest_with_other_values_is_not_used(
    exports: Exports, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    await exports.publish()
    (file,) = (await exports.feed.json("exports/listings", "a"))["files"]
    for path in (exports.root / "a" / "listings").glob("*.json"):
        manifest = orjson.loads(path.read_bytes())
        MANIFESTS[kind](manifest)
        path.write_bytes(orjson.dumps(manifest))
    for url in ("/v1/exports/listings", file["href"]):
        assert (await fetched(exports, url)).status == 404
    assert caplog.text.count("cannot be used") == 2


async def test_publications_that_were_copied_to_another_company_are_not_served(exports: Exports) -> None:
    await exports.publish()
    (file,) = (await exports.feed.json("exports/listings", "a"))["files"]
    shutil.copytree(exports.root / "a" / "listings", exports.root / "b" / "listings", dirs_exist_ok=True)
    for url in ("/v1/exports/listings", file["href"]):
        assert (await fetched(exports, url, "b")).status == 404


async def test_a_folder_that_is_a_link_is_not_followed(exports: Exports, tmp_path: Path) -> None:
    await exports.publish()
    (file,) = (await exports.feed.json("exports/listings", "a"))["files"]
    elsewhere = tmp_path / "elsewhere"
    (exports.root / "a").rename(elsewhere)
    (exports.root / "a").symlink_to(elsewhere)
    assert (await fetched(exports, file["href"])).status == 404
    # The folder itself may be a link.
    (tmp_path / "root").symlink_to(exports.root)
    (exports.root / "a").unlink()
    elsewhere.rename(exports.root / "a")
    with open_below(tmp_path / "root", "a/listings/manifest.json") as opened:
        assert opened.read()


async def test_identifiers_that_unpack_to_more_than_all_are_not_read(
    exports: Exports, internals: Internals, caplog: pytest.LogCaptureFixture
) -> None:
    """The audit needs them, so that the file is not sent without."""
    internals(published_identifier_bytes=2**20)
    await exports.publish()
    (file,) = (await exports.feed.json("exports/listings", "a"))["files"]
    path = exports.root / "a" / "listings" / identifiers_name(exports.latest("a").files[0].name)
    publications = services(exports).find(service.exports.publications.Publications)
    assert publications is not None
    found = await publications.find("a", "listings", exports.latest("a").files[0].name)
    assert found is not None
    assert len(await publications.identifiers(found)) == 5
    assert file["records"] == 5
    for content, said in (
        (zstd.compress(b"\n" * 2**24), "it unpacks to more than 1,048,576 bytes"),
        (zstd.compress(b"a" * 2**19) * 3, "it unpacks to more than 1,048,576 bytes"),
        (b"no zstd", "cannot be used"),
        (zstd.compress(b"a" * 9)[:-3], "cannot be used"),
    ):
        path.write_bytes(content)
        caplog.clear()
        with pytest.raises(FileNotFoundError):
            await publications.identifiers(found)
        assert said in caplog.text
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(FileNotFoundError):
        await publications.identifiers(found)


async def test_a_publication_does_not_write_through_links(exports: Exports, tmp_path: Path) -> None:
    """What others may write to would let them overwrite what the publisher may write."""
    await exports.publish()
    (target := tmp_path / "precious").write_bytes(SECRET)
    (exports.root / "a" / "listings" / "manifest.json.part").symlink_to(target)
    with pytest.raises((PublishError, OSError), match=r"Too many levels of symbolic links|cannot be used"):
        await exports.publish()
    assert target.read_bytes() == SECRET
    os.mkfifo(exports.root / "pipe")
    with pytest.raises(OSError, match="No such device or address"):
        TargetFolder(exports.root).create(exports.root / "pipe")
