"""The commands of `docs/backup-and-restore.md`, run as they are written there; `-s` prints the rehearsal."""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from cluster.connection import ConnectionSettings
from embedded import EmbeddedCluster
from mappings import AGENT, COMPANY, LISTING, RESOURCES, Resource
from service.keys.store import KeyGrant, KeyStore
from tests.consumer.conftest import copied, run
from tests.consumer.service_process import ServiceProcess, environment, run_service
from tests.consumer.test_pull_command import summary as summarized
from tests.indexer.conftest import Bench, bench
from tests.records import COMPANY_KEY, deletion, envelope, identifier_of

__all__ = ["bench"]

_PAGE = Path(__file__).parents[2] / "docs" / "backup-and-restore.md"
_BLOCKS = dict(re.findall(r"(?ms)^```bash ([\w-]+)\n(.*?)^```$", _PAGE.read_text()))
_EARLY, _LATER, _LATEST = (f"2026-0{month}-03T04:05:06.789Z" for month in (2, 3, 4))
_LISTINGS = 40


@pytest.fixture
def connection(cluster: EmbeddedCluster, prefix: str) -> ConnectionSettings:
    return ConnectionSettings(url=(cluster.url,), prefix=prefix)


@dataclass
class Rehearsal:
    bench: Bench
    service: ServiceProcess
    keys: KeyStore
    folder: Path
    steps: list[tuple[str, float, str]] = field(default_factory=list)

    async def follow(self, *names: str, **variables: str) -> str:
        """Run blocks of the page in one shell, and return what they print."""
        began = time.monotonic()
        printed = await asyncio.to_thread(
            self._shell, "\n".join(_BLOCKS[name] for name in ("names", *names)), variables
        )
        self.steps.append((", ".join(names), time.monotonic() - began, ""))
        return printed

    def _shell(self, script: str, variables: dict[str, str]) -> str:
        given = environment(
            ELASTICSEARCH_URL=self.bench.connection.url[0],
            BROKERAGE_INDEX_PREFIX=self.bench.connection.prefix,
            PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            **variables,
        )
        shell = ["bash", "-euo", "pipefail", "-c", script]
        result = subprocess.run(shell, env=given, capture_output=True, text=True, check=False)  # noqa: S603
        assert result.returncode == 0, (script, result.stdout, result.stderr)
        return result.stdout

    async def pull(self) -> dict[str, Any]:
        """Let the consumer pull; its copy must equal what is served."""
        began = time.monotonic()
        code, out, err = await run(self.folder, "--url", self.service.url, key=self.service.key)
        told: dict[str, Any] = summarized(out)
        assert (code, err, {resource["proof"] for resource in told.values()}) == (0, "", {"equal"}), out
        assert self.copy() == await self.served()
        sums = {name: sum(resource[name] for resource in told.values()) for name in ("snapshots", "changed", "removed")}
        text = ", ".join(f"{count} {name}" for name, count in sums.items())
        self.steps.append(("brokerage pull", time.monotonic() - began, f"{text}; equal"))
        return told

    def copy(self) -> dict[str, dict[str, str]]:
        return {
            name: {key: content for key, (content, _) in held.items()} for name, held in copied(self.folder).items()
        }

    async def served(self) -> dict[str, dict[str, str]]:
        """Return the content hashes of what Elasticsearch has."""
        found: dict[str, dict[str, str]] = {}
        for resource in RESOURCES:
            documents = (await self.bench.served(resource)).values()
            live = [document for document in documents if not document["deleted"]]
            found[resource.alias] = {one["id"]: f"{one['content'] % 2**64:016x}" for one in live}
        return found

    async def status(self, path: str, key: str = "") -> int:
        headers = {"x-api-key": key or self.service.key}
        async with aiohttp.ClientSession(headers=headers) as session, session.get(self.service.url + path) as answer:
            return answer.status

    async def until(self, path: str, status: int, key: str = "") -> None:
        """Return once the service, which looks at its indices now and then, answers with a status."""
        async with asyncio.timeout(60):
            while await self.status(path, key) != status:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.1)

    async def change(self, at: str, *names: str, gone: str | None = None) -> None:
        lines = [_one(LISTING, name, at, ListPrice=1_000 * int(at[6])) for name in names]
        lines += [deletion(LISTING, gone, at)] if gone else []
        assert (await self.bench.update({LISTING: lines, AGENT: [_one(AGENT, f"agent-{at[6]}", at)]})).exit_code == 0

    def print_steps(self) -> None:
        """Print what was done, in seconds."""
        print("\n| step | seconds | outcome |\n|---|---:|---|")
        for name, seconds, outcome in self.steps:
            print(f"| {name} | {seconds:.1f} | {outcome} |")


def _one(resource: Resource, identifier: str, at: str, **changes: Any) -> dict[str, Any]:
    changed = {resource.identifier: identifier_of(resource, identifier), **changes}
    return envelope(resource, changed, updated_at=at, platform_company_id=COMPANY_KEY)


@pytest.fixture
async def rehearsal(bench: Bench, tmp_path: Path) -> AsyncIterator[Rehearsal]:
    lines = {of: [_one(of, of.name.lower(), _EARLY)] for of in RESOURCES if of is not COMPANY}
    lines[COMPANY] = [envelope(COMPANY)]
    lines[LISTING] = [_one(LISTING, f"l{number}", _EARLY) for number in range(_LISTINGS)]
    assert (await bench.build(lines)).exit_code == 0
    keys = KeyStore(bench.client, bench.connection.keys_index, bench.connection.usage_index)
    key = await keys.create(KeyGrant("consumer", all_companies=True, rate=None))
    async with run_service(bench, key.reveal(), tmp_path / "service.log") as service:
        yield Rehearsal(bench, service, keys, tmp_path / "copy")


async def test_the_page_on_backup_and_restore(rehearsal: Rehearsal) -> None:
    revoked = await rehearsal.keys.create(KeyGrant("revoked later", all_companies=True, rate=None))
    await rehearsal.change(_EARLY, "before")
    backed_up = await rehearsal.served()
    printed = await rehearsal.follow("register", "back-up")
    (name,) = set(re.findall(r'"snapshot":"([^"]+)"', printed.splitlines()[-1] + printed.splitlines()[-2]))
    await rehearsal.pull()

    await rehearsal.change(_LATER, "l1", "after", gone="l2")
    await rehearsal.keys.revoke(revoked.key_id)
    await rehearsal.until("/v1/companies", 401, revoked.reveal())
    assert (await rehearsal.pull())["listings"]["snapshots"] == 0

    await rehearsal.follow("delete", NAME=name)
    await rehearsal.follow("delete", "restore", NAME=name)  # nothing is left to delete, as after a loss
    assert await rehearsal.served() == backed_up
    await rehearsal.until("/v1/changes", 503)
    await rehearsal.until("/v1/companies", 200, revoked.reveal())
    await rehearsal.follow("revoke-again", REVOKED=revoked.key_id)
    await rehearsal.until("/v1/companies", 401, revoked.reveal())
    await rehearsal.follow("declare")
    assert "index restored" not in await rehearsal.follow("check")
    await rehearsal.until("/v1/changes", 200)
    assert (await rehearsal.pull())["listings"]["snapshots"] == 1
    assert rehearsal.copy() == backed_up

    await rehearsal.change(_LATER, "l1", "after", gone="l2")
    assert (await rehearsal.pull())["listings"]["snapshots"] == 0
    agents = rehearsal.copy()["agents"]
    await rehearsal.follow("one-resource", NAME=name)
    await rehearsal.until("/v1/changes", 200)
    told = await rehearsal.pull()
    assert (told["listings"]["snapshots"], told["agents"]["snapshots"]) == (1, 0)
    assert (rehearsal.copy()["listings"], rehearsal.copy()["agents"]) == (backed_up["listings"], agents)
    await rehearsal.change(_LATEST, "l3", gone="l1")
    assert (await rehearsal.pull())["listings"]["snapshots"] == 0
    rehearsal.print_steps()
