"""The service over an installation that tests publish from, and the folder between both."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from cluster.zstd import zstd
from mappings import COMPANY, LISTING, OFFICE
from mappings.visibility import DisplayLicence
from service.exports.publications import Manifest, PublishedFile, decode_manifest
from service.keys.store import KeyGrant
from service.publishing.publisher import PublishProgress, publish
from service.publishing.target import OpenTables, TargetFolder
from service.settings import ServiceSettings
from tests.feed.conftest import GRANTS, SETTINGS, serve_feed
from tests.feed.feed_client import FeedClient, company, listing, office
from tests.indexer.conftest import Bench, bench
from tests.internals import Internals
from tests.service_settings import with_settings

__all__ = ["bench", "exports"]


class Silence:
    """A display that keeps what is reported."""

    def __init__(self) -> None:
        self.shown: list[PublishProgress] = []
        self.notes: list[str] = []

    def show(self, progress: PublishProgress) -> None:
        """Keep it."""
        self.shown.append(progress)

    def note(self, sentence: str) -> None:
        """Keep it."""
        self.notes.append(sentence)


@dataclass(frozen=True)
class Exports:
    """The service, its feed, and a folder of files."""

    feed: FeedClient
    root: Path
    settings: ServiceSettings

    async def publish(self, *companies: str, open_tables: OpenTables | None = None) -> Silence:
        """Publish, and return what was reported."""
        display, target = Silence(), TargetFolder(self.root, open_tables)
        await publish(self.feed.bench.connection, self.settings, target, companies, display)
        return display

    def latest(self, company: str, resource: str = "listings") -> Manifest:
        """Return the latest manifest."""
        return decode_manifest((self.root / company / resource / "manifest.json").read_bytes())

    def lines(self, manifest: Manifest) -> list[dict[str, Any]]:
        """Return the lines of all files of a publication."""
        return self.lines_of(manifest, manifest.whole_files)

    def lines_of(self, manifest: Manifest, files: Iterable[PublishedFile]) -> list[dict[str, Any]]:
        """Return the lines of some files of a publication."""
        folder = self.root / manifest.company / manifest.resource
        texts = [zstd.decompress((folder / file.name).read_bytes()) for file in files]
        return [orjson.loads(line) for text in texts for line in text.splitlines()]

    def names(self, company: str, resource: str = "listings") -> set[str]:
        """Return the names of all files of a company's resource."""
        return {path.name for path in (self.root / company / resource).iterdir()}


@pytest.fixture
async def exports(bench: Bench, tmp_path: Path, internals: Internals) -> AsyncIterator[Exports]:
    """Listings and offices of the companies a and b, one of them deactivated; two records a page."""
    internals(snapshot_page=2)
    lines = [listing(f"L{at}", "ab"[at % 2], price=at) for at in range(10)]
    offices = [office("O1", "a"), office("O2", "b"), office("O3", "a", 1, deactivated=True)]
    summary = await bench.build({COMPANY: [company(key) for key in "abc"], LISTING: lines, OFFICE: offices})
    assert summary.exit_code == 0
    grants = {**GRANTS, "shown": KeyGrant("shown", companies=("a",), rate=None, display=DisplayLicence.IDX)}
    settings = with_settings(SETTINGS, exports=str(tmp_path / "exports"), exports_hours=0.0, audit_days=1)
    async with serve_feed(bench, settings, grants) as feed:
        yield Exports(feed, tmp_path / "exports", settings)
