"""Record what a release leaves behind: `python -m tests.upgrade.record VERSION [--checkout DIR]`.

Runs the commands of a checkout as an operator and a consumer would, on a node of its own, and writes
tests/upgrade/releases/VERSION.tar.gz: the data folder of the node, keys, what they were served, tokens, and a copy.
"""

import argparse
import datetime as dt
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import orjson

from embedded import EmbeddedCluster, NodeOptions
from embedded.node_options import free_ports

RELEASES = Path(__file__).with_name("releases")
PREFIX = "released-"
# Of one company, since feeds need one. Each names its time: what is left out is counted from the day of the request.
PAGES = {
    "companies": "companies",
    "offices": "offices?page_size=100&platform_company_id={}",
    "teams": "teams?page_size=100&platform_company_id={}",
    "agents": "agents?page_size=100&updated_since=1&platform_company_id={}",
    "listings": "listings?page_size=100&updated_since=1&platform_company_id={}",
    "sold_listings": "sold_listings?page_size=100&updated_since=1&platform_company_id={}",
}
_COMMAND = "from brokerage.command import main; main()"
_LISTINGS = 30


@dataclass(frozen=True)
class Release:
    """A checkout of a release, and a cluster for it."""

    checkout: Path
    cluster_url: str
    folder: Path

    def environment(self, **settings: str) -> dict[str, str]:
        """Nothing of the caller's settings."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("BROKERAGE_")}
        own = {"ELASTICSEARCH_URL": self.cluster_url, "BROKERAGE_INDEX_PREFIX": PREFIX}
        return kept | own | {"PYTHONPATH": f"{self.checkout}:{self.checkout / 'consumer'}"} | settings

    def run(self, *arguments: object, **settings: str) -> str:
        """Return what `brokerage …` printed; raise RuntimeError with it if the command fails."""
        made = self.attempt(*arguments, **settings)
        if made.returncode:
            raise RuntimeError(f"{arguments} exited with {made.returncode}: {made.stdout}{made.stderr}")
        return made.stdout

    def attempt(self, *arguments: object, **settings: str) -> subprocess.CompletedProcess[str]:
        """Run `brokerage …`."""
        command = [sys.executable, "-c", _COMMAND, *map(str, arguments)]
        environment = self.environment(**settings)
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own command

    @contextmanager
    def serve(self) -> Iterator[str]:
        """Run the service; yield its address."""
        (port,) = free_ports(1)
        command = [sys.executable, "-c", _COMMAND, "serve", "--port", str(port)]
        service = subprocess.Popen(command, cwd=self.folder, env=self.environment())  # noqa: S603 - our own command
        try:
            _wait_until_ready(f"http://127.0.0.1:{port}/readyz")
            yield f"http://127.0.0.1:{port}"
        finally:
            service.terminate()
            service.wait()


def main() -> None:
    """Record a release."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).resolve().parents[2])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        with EmbeddedCluster(NodeOptions(data=folder / "release" / "node")) as cluster:
            _record(Release(given.checkout.resolve(), cluster.url, folder))
        RELEASES.mkdir(exist_ok=True)
        with tarfile.open(RELEASES / f"{given.version}.tar.gz", "w:gz") as archive:
            archive.add(folder / "release", ".", filter=_archived)


def _record(release: Release) -> None:
    source = release.folder / "release" / "source"
    release.run("sample", source, "--listings", _LISTINGS)
    release.run("index", "reindex", source)
    company = orjson.loads((source / "companies.ndjson").read_bytes().splitlines()[0])["record"]["platform_company_id"]
    pages = {resource: path.format(company) for resource, path in PAGES.items()}
    keys = _create_keys(release, company)
    with release.serve() as url:
        first = {name: get(url, key, "changes?page_size=1000") for name, key in keys.items()}
        tokens = {name: orjson.loads(body)["next"] for name, body in first.items()}
        _write(release, "tokens.json", tokens)
        release.run("pull", "release/copy", "--url", url, BROKERAGE_API_KEY=keys["everything"])
        release.run("index", "update", _some_changes(source))
        for name, key in keys.items():
            _write(release, f"served-{name}.json", served(url, key, pages, tokens[name]))
    _write(release, "pages.json", pages)
    _write(release, "keys.json", keys)


def served(url: str, key: str, pages: dict[str, str], token: str) -> dict[str, Any]:
    """Return a page of each resource by its path, and the changes since a token."""
    changes = orjson.loads(get(url, key, f"changes?wait=30&since={token}"))["changes"]
    return {"changes": changes} | {name: orjson.loads(get(url, key, path)) for name, path in pages.items()}


def _create_keys(release: Release, company: str) -> dict[str, str]:
    scopes = {"everything": ["--all-companies"], "one company": ["--company", company]}
    made = {name: release.run("keys", "create", name, *scope, "--json") for name, scope in scopes.items()}
    return {name: orjson.loads(printed)["key"] for name, printed in made.items()}


def _some_changes(source: Path) -> Path:
    """Write a source with a new price of one listing, and the deletion of another."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    lines = [orjson.loads(line) for line in (source / "listings.ndjson").read_bytes().splitlines()[:2]]
    for line in lines:
        line["updated_at"] = line["record"]["ModificationTimestamp"] = now
    lines[0]["record"]["ListPrice"] = 123_000
    lines[1]["deleted"] = True
    changed = source.with_name("changes")
    changed.mkdir()
    (changed / "listings.ndjson").write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")
    return changed


def get(url: str, key: str, path: str) -> bytes:
    """Return the body of a response below `/v1`; raise RuntimeError with the body of an error."""
    request = urllib.request.Request(f"{url}/v1/{path}", headers={"x-api-key": key})  # noqa: S310 - our own service
    try:
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 - our own service
            body: bytes = response.read()
    except HTTPError as error:
        raise RuntimeError(f"{path}: {error.read().decode()}") from error
    return body


def _write(release: Release, name: str, value: Any) -> None:
    (release.folder / "release").mkdir(exist_ok=True)
    (release.folder / "release" / name).write_bytes(orjson.dumps(value))


def _wait_until_ready(url: str) -> None:
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own service
                return
        except OSError:
            time.sleep(0.1)


def _archived(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Leave out logs, which describe the machine, and owners."""
    if "/logs" in member.name:
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
