"""A pull that is killed again and again, whatever it does, leaves a copy that fits its token, and ends complete."""

import contextlib
import random
import sqlite3
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.consumer.conftest import ServedStandIn, command, copied, run
from tests.consumer.stand_in_service import StandInService
from tests.waiting import until

SIGKILLED = -9
RECORDS = 6_000


def change(stand_in: StandInService, chance: random.Random, count: int) -> None:
    """Write and drop some records."""
    for _ in range(count):
        resource, identifier = chance.choice(["agents", *["listings"] * 4]), f"k{chance.randrange(RECORDS)}"
        if chance.random() < 0.3:
            stand_in.drop(resource, identifier)
        else:
            stand_in.put(resource, identifier, text=chance.randbytes(700).hex())


def copy_sequences(folder: Path) -> dict[str, int]:
    """Return up to which sequence the copy says that it holds each resource, where it holds one."""
    with closing(sqlite3.connect(f"file:{folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
        tokens = connection.execute("SELECT resource, token FROM state WHERE token IS NOT NULL AND coming IS NULL")
        parts = [(resource, part.split(".")) for resource, token in tokens for part in token.split("~")]
        return {resource: int(place) for resource, (name, _, place) in parts if name == resource}


def check(stand_in: StandInService, folder: Path) -> None:
    """Check that what changed last up to the place of the copy is in it as it was then."""
    held = copied(folder)
    for resource, place in copy_sequences(folder).items():
        for entry in stand_in.held[resource].values():
            if entry.sequence <= place:
                expected = (entry.content, entry.record) if entry.reason is None else None
                assert held[resource].get(entry.id) == expected, f"{resource} {entry.id}"
        assert held[resource].keys() <= stand_in.held[resource].keys()


def has_begun(folder: Path) -> bool:
    """Whether the copy holds a place in a snapshot of listings that is not complete."""
    kept = "SELECT after FROM state WHERE resource = 'listings' AND after IS NOT NULL"
    try:
        with closing(sqlite3.connect(f"file:{folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
            return connection.execute(kept).fetchone() is not None
    except sqlite3.OperationalError:  # it is not there yet, or being made
        return False


async def kill_within_a_snapshot(stand_in: StandInService, process: Process, folder: Path) -> None:
    """Kill a process that has kept a part of a snapshot, which does not end before."""
    stand_in.endless = "listings"
    await until(lambda: has_begun(folder) or process.returncode is not None)
    process.kill()
    stand_in.endless = ""


def kill_by_requests(stand_in: StandInService, process: Process, requests: int) -> None:
    """Kill a process when it has asked so many times more."""
    most = len(stand_in.asked) + requests

    def kill(_: int) -> None:
        if len(stand_in.asked) >= most:
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    stand_in.on_request = kill


async def test_a_pull_that_is_killed_ends_as_if_it_had_not_been(
    served: ServedStandIn, tmp_path: Path, amount: Callable[[int, int], int]
) -> None:
    stand_in, chance, rounds = served.stand_in, random.Random(9), amount(2, 60)  # noqa: S311 - repeatable
    change(stand_in, chance, 2 * RECORDS)
    for _ in range(rounds):
        for requests in 0, chance.randint(2, 14):
            async with command(tmp_path, "--url", served.url, "--format", "ndjson") as process:
                if requests:
                    kill_by_requests(stand_in, process, requests)
                else:
                    await kill_within_a_snapshot(stand_in, process, tmp_path)
                await process.communicate()
            stand_in.on_request = lambda _: None
            assert process.returncode == SIGKILLED
            check(stand_in, tmp_path)
            change(stand_in, chance, 500)
        stand_in.epochs["listings"] += 1
    code, _, err = await run(tmp_path, "--url", served.url, "--format", "ndjson")
    assert (code, err) == (0, "")
    assert copied(tmp_path) == stand_in.contents()
    assert sum("after" in query for _, query in stand_in.asked) >= rounds
