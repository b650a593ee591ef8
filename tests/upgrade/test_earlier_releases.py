"""An upgrade in place, as `docs/upgrading.md` describes it: data of earlier releases, and the commands of this one.

Each archive in `releases` was written by the commands of that release (`python -m tests.upgrade.record`).
"""

import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from embedded import EmbeddedCluster, NodeOptions
from tests.upgrade.record import PAGES, RELEASES, Release, served

ROOT = Path(__file__).parents[2]
# Equal to what is served, without another snapshot.
_RESUMED = ("equal", 0)
# A copy of before exact values takes one of the resources that have them.
_RENEWED = dict.fromkeys(("listings", "sold_listings"), ("equal", 1))
ARCHIVES = sorted(RELEASES.glob("*.tar.gz"))


class Installation:
    """The data of an earlier release, and the commands of this one."""

    def __init__(self, folder: Path, cluster_url: str) -> None:
        """Use what is unpacked in `folder`."""
        self.folder = folder
        self.commands = Release(ROOT, cluster_url, folder)
        self.keys: dict[str, str] = self.load("keys")
        self.pages: dict[str, str] = self.load("pages")

    def load(self, name: str) -> Any:
        """Return what was recorded under a name."""
        return orjson.loads((self.folder / f"{name}.json").read_bytes())

    def outdated(self) -> list[str]:
        """Return the resources that `brokerage doctor` wants to have rebuilt."""
        findings = orjson.loads(self.commands.run("doctor", "--json"))
        return [finding["subject"] for finding in findings if "brokerage index reindex" in finding["remedy"]]

    def pull(self, url: str) -> dict[str, tuple[str, int]]:
        """Return how the copy of each resource compares, and how often it was loaded, after a consumer has resumed it.

        The service had another port when the copy was made.
        """
        with closing(sqlite3.connect(self.folder / "copy" / "copy.sqlite3")) as copy:
            copy.execute("UPDATE copy_of SET choices = ?", [url])
            copy.commit()
        arguments = ("pull", "copy", "--url", url, "--json")
        printed = self.commands.run(*arguments, BROKERAGE_API_KEY=self.keys["everything"])
        return {
            name: (one["proof"], one["snapshots"])
            for name, one in orjson.loads(printed.splitlines()[-1])["resources"].items()
        }


@pytest.fixture(params=ARCHIVES, ids=lambda archive: archive.name)
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """An installation whose cluster has the data of an earlier release."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    with EmbeddedCluster(NodeOptions(data=tmp_path / "node", heap_mb=512)) as cluster:
        yield Installation(tmp_path, cluster.url)


def test_an_upgrade_in_place(installation: Installation) -> None:
    commands, tokens = installation.commands, installation.load("tokens")
    outdated = installation.outdated()
    with commands.serve() as url:
        for name, key in installation.keys.items():
            now = served(url, key, installation.pages, tokens[name])
            assert now == installation.load(f"served-{name}")
            assert now["changes"]
        assert installation.pull(url) == dict.fromkeys(PAGES, _RESUMED) | _RENEWED
        refused = commands.attempt("index", "update", "changes")
        assert ("Rebuild it with `brokerage index reindex SOURCE listings`" in refused.stderr) == (
            "listings" in outdated
        )
        assert refused.returncode == ("listings" in outdated)
        commands.run("index", "reindex", "source")
        assert installation.outdated() == []
        commands.run("index", "update", "changes")
        assert installation.pull(url) == dict.fromkeys(PAGES, _RESUMED)
    commands.run("index", "verify", "source")
