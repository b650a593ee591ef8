"""A copy that follows a real service through updates, moves, rebuilds and a rollback, killed again and again.

Nothing may be missed on the way: the pull compares itself with the service as it goes, and no difference is repaired.
"""

import asyncio
import datetime as dt
import random
import signal
import sqlite3
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from brokerage_feed.messages import SnapshotRecord
from indexer import rollback
from mappings import COMPANY, LISTING
from service.keys.store import KeyGrant, KeyStore
from tests.consumer.conftest import COMMAND
from tests.consumer.service_process import ServiceProcess, environment, run_service
from tests.feed.feed_client import ConsumerCopy
from tests.indexer.conftest import Bench, bench
from tests.records import deletion, envelope, write
from tests.waiting import until, until_true

__all__ = ["bench"]

COMPANIES, SCOPE = "abc", "ab"
RUNS, CHANGES_A_RUN = 4, 40


class MarketListing(NamedTuple):
    """What can change of a listing; one that is not active is off the market."""

    company: str
    price: int
    is_active: bool = True


@dataclass
class Market:
    """What the source holds. Every change has a moment of its own, so that the newest is never in doubt."""

    chance: random.Random
    alive: dict[str, MarketListing] = field(default_factory=dict)
    _gone: list[str] = field(default_factory=list)
    _lines: dict[str, dict[str, Any]] = field(default_factory=dict)  # of what is alive
    _moment: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))
    _number: int = 0

    def open(self, count: int) -> None:
        for _ in range(count):
            self._put(self._unused(), MarketListing(self.chance.choice(COMPANIES), self._next()))

    def changes(self, count: int) -> list[dict[str, Any]]:
        """Let something happen to some listings, and return their lines."""
        return [self._happen(self.chance.choice([*self.alive])) for _ in range(count)]

    def source(self) -> dict[Any, list[dict[str, Any]]]:
        companies = [envelope(COMPANY, {"platform_company_id": key, "numeric_id": None}) for key in COMPANIES]
        return {COMPANY: companies, LISTING: [*self._lines.values()]}

    def seen(self) -> dict[str, tuple[str, int]]:
        """Return company and price of what a consumer of the scope sees."""
        return {
            name: (listing.company, listing.price)
            for name, listing in self.alive.items()
            if listing.company in SCOPE and listing.is_active
        }

    def _happen(self, name: str) -> dict[str, Any]:
        before = self.alive[name]
        kind = self.chance.choices(["price", "new", "gone", "move", "market", "touch"], [65, 8, 10, 10, 5, 2])[0]
        if kind == "gone":
            del self.alive[name], self._lines[name]
            self._gone.append(name)
            return deletion(LISTING, name, self._now()) | {"platform_company_id": before.company}
        if kind == "new":
            return self._put(self._unused(), MarketListing(self.chance.choice(COMPANIES), self._next()))
        changes: dict[str, dict[str, Any]] = {
            "price": {"price": self._next()},
            "move": {"company": self.chance.choice(COMPANIES.replace(before.company, ""))},
            "market": {"is_active": not before.is_active},
            "touch": {},
        }
        return self._put(name, before._replace(**changes[kind]))

    def _put(self, name: str, listing: MarketListing) -> dict[str, Any]:
        status = "Active" if listing.is_active else "Canceled"
        record = {"PlatformListingId": name, "ListPrice": listing.price, "Status": status}
        self.alive[name] = listing
        self._lines[name] = envelope(LISTING, record, updated_at=self._now(), platform_company_id=listing.company)
        return self._lines[name]

    def _unused(self) -> str:
        """Return a new name, or one that was deleted: it comes again."""
        return self._gone.pop() if self._gone and self.chance.random() < 0.5 else f"l{self._next()}"

    def _now(self) -> str:
        self._moment = max(self._moment + dt.timedelta(microseconds=1), dt.datetime.now(dt.UTC))
        return self._moment.isoformat()

    def _next(self) -> int:
        self._number += 1
        return self._number


@dataclass
class Follower:
    """`brokerage pull` as a process that is killed and started again; each writes files of its own."""

    folder: Path
    url: str
    key: str
    starts: int = 0

    async def start(self, how: str = "--follow") -> Process:
        self.starts += 1
        with self._output("out").open("wb") as out, self._output("err").open("wb") as err:
            return await asyncio.create_subprocess_exec(
                *(COMMAND, "pull", str(self.folder), "--url", self.url, "--json", how),
                *("--resources", "companies,listings", "--market-status", "on-market"),
                env=environment(BROKERAGE_API_KEY=self.key, BROKERAGE_PULL_VERIFY_SECONDS="2"),
                stdout=out,
                stderr=err,
            )

    async def kill(self, process: Process) -> None:
        """Kill it; it must have gone on until then without a word on standard error."""
        if process.returncode is None:
            process.kill()
        code, said = await process.wait(), self._output("err").read_text()
        assert (code, said) == (-signal.SIGKILL, "")

    def token(self) -> str | None:
        """Return the token from which the copy continues, None before its first snapshot is complete."""
        where = f"file:{self.folder / 'copy.sqlite3'}?mode=ro"
        try:
            with closing(sqlite3.connect(where, uri=True)) as connection:
                found = connection.execute("SELECT token FROM state WHERE resource = 'listings'").fetchone()
                return str(found[0]) if found and found[0] else None
        except sqlite3.OperationalError:  # it is not there yet, or being made
            return None

    def copied(self) -> dict[str, tuple[str, int, str, bytes]]:
        """Return company, sequence, content and bytes of each record."""
        with closing(sqlite3.connect(f"file:{self.folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
            rows = connection.execute("SELECT id, company, sequence, content, record FROM listings")
            return {name: (company, at, content, record.encode()) for name, company, at, content, record in rows}

    def differences(self) -> list[str]:
        """Return what any of the processes has found to be different."""
        outputs = [path.read_bytes() for path in self.folder.parent.glob("pull-*.out")]
        statuses = [orjson.loads(line) for output in outputs for line in output.split(b"\n")[:-1]]
        return [name for status in statuses for name in status.get("different", ())]

    def _output(self, name: str) -> Path:
        return self.folder.with_name(f"pull-{self.starts}.{name}")


async def kill_behind_a_token(follower: Follower, process: Process) -> Process:
    """Kill a pull when it has just stored another token: what that covers must be stored as well."""
    before = follower.token()
    await until(lambda: follower.token() not in {None, before})
    await follower.kill(process)
    return await follower.start()


async def apply(bench: Bench, market: Market) -> None:
    for _ in range(RUNS):
        assert (await bench.update({LISTING: market.changes(CHANGES_A_RUN)})).exit_code == 0


async def rebuild(bench: Bench, market: Market, *, drift: int = 0) -> None:
    """Rebuild the listings from the source, of which so many changes were not sent by updates."""
    market.changes(drift)
    write(bench.folder, market.source())
    assert (await bench.build_folder([LISTING])).exit_code == 0


async def is_settled(service: ServiceProcess) -> bool:
    """Whether everything searchable is published."""
    return not orjson.loads(await service.get("digest/listings"))["unsettled"]


async def test_a_copy_follows_whatever_happens(bench: Bench, tmp_path: Path, amount: Callable[[int, int], int]) -> None:
    market = Market(random.Random(9))  # noqa: S311 - repeatable
    market.open(amount(600, 8_000))
    grant = KeyGrant("two", tuple(SCOPE), rate=None)
    key = (await KeyStore(bench.client, bench.connection.keys_index).create(grant)).reveal()
    assert (await bench.build(market.source())).exit_code == 0
    async with run_service(bench, key, tmp_path / "service.log") as service:
        follower = Follower(tmp_path / "copy", service.url, key)
        process = await follower.start()
        try:
            for number in range(amount(2, 40)):
                await until(follower.token)
                updates = asyncio.create_task(apply(bench, market))
                process = await kill_behind_a_token(follower, process)
                await asyncio.gather(updates, rebuild(bench, market, drift=len(market.alive) // 50))
                if number == 0:
                    # The token that the copy holds becomes invalid.
                    await until(follower.token)
                    await rollback(bench.engine(lock_wait_seconds=30.0), LISTING)
                    await until(lambda: service.requests()["/v1/changes", HTTPStatus.GONE])
                await follower.kill(process)
                process = await follower.start()
            # What a rollback took back comes again.
            await rebuild(bench, market)
            await until_true(partial(is_settled, service))
            await follower.kill(process)
            process = await follower.start("--once")
            assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert follower.differences() == []
        _, *lines, last = (await service.get("snapshot/listings")).splitlines()
    records = [msgspec.json.decode(line, type=SnapshotRecord) for line in lines]
    held = {one.id: (one.company, one.sequence, one.content, bytes(one.record)) for one in records}
    end, copy = orjson.loads(last), follower.copied()
    assert ConsumerCopy.digest({name: (one[2], {}) for name, one in held.items()}) == (end["count"], end["digest"])
    assert copy == held
    prices = {name: (company, orjson.loads(record)["ListPrice"]) for name, (company, _, _, record) in copy.items()}
    assert prices == market.seen()
