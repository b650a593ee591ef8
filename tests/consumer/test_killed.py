"""A pull that is killed again and again, whatever it does, leaves a copy that fits its token, and ends complete."""

from __future__ import annotations

import contextlib
import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from tests.consumer.conftest import command, copied, run

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable
    from pathlib import Path

    from tests.consumer.conftest import Served
    from tests.consumer.stand_in import StandIn

SIGKILLED = -9
RECORDS = 6_000


def change(stand_in: StandIn, chance: random.Random, count: int) -> None:
    """Write and drop some records."""
    for _ in range(count):
        resource, identifier = chance.choice(["agents", *["listings"] * 4]), f"k{chance.randrange(RECORDS)}"
        if chance.random() < 0.3:
            stand_in.drop(resource, identifier)
        else:
            stand_in.put(resource, identifier, text=chance.randbytes(700).hex())


def places(folder: Path) -> dict[str, int]:
    """Return up to which sequence the copy says that it holds each resource, where it holds one."""
    with closing(sqlite3.connect(f"file:{folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
        tokens = connection.execute("SELECT resource, token FROM state WHERE token IS NOT NULL AND coming IS NULL")
        parts = [(resource, part.split(".")) for resource, token in tokens for part in token.split("~")]
        return {resource: int(place) for resource, (name, _, place) in parts if name == resource}


def check(stand_in: StandIn, folder: Path) -> None:
    """Check that what changed last up to the place of the copy is in it as it was then."""
    held = copied(folder)
    for resource, place in places(folder).items():
        for entry in stand_in.held[resource].values():
            if entry.sequence <= place:
                expected = (entry.content, entry.record) if entry.reason is None else None
                assert held[resource].get(entry.id) == expected, f"{resource} {entry.id}"
        assert held[resource].keys() <= stand_in.held[resource].keys()


def arm(stand_in: StandIn, process: Process, *, lines: int = 0, requests: int = 0) -> None:
    """Kill a process when so many more lines were sent, or so many requests were asked."""
    lines, requests = lines and stand_in.lines + lines, requests and len(stand_in.asked) + requests

    def kill(_: int) -> None:
        if (lines and stand_in.lines >= lines) or (requests and len(stand_in.asked) >= requests):
            with contextlib.suppress(ProcessLookupError):
                process.kill()

    stand_in.on_lines = stand_in.on_request = kill


async def test_a_pull_that_is_killed_ends_as_if_it_had_not_been(
    served: Served, tmp_path: Path, amount: Callable[[int, int], int]
) -> None:
    stand_in, chance, rounds = served.stand_in, random.Random(9), amount(2, 60)  # noqa: S311 - repeatable
    stand_in.is_slow = True
    change(stand_in, chance, 2 * RECORDS)
    for _ in range(rounds):
        for moment in {"lines": chance.randint(1_500, 3_000)}, {"requests": chance.randint(2, 14)}:
            async with command(tmp_path, "--url", served.url, "--format", "ndjson") as process:
                arm(stand_in, process, **moment)
                await process.communicate()
            assert process.returncode == SIGKILLED
            check(stand_in, tmp_path)
            change(stand_in, chance, 500)
        stand_in.epochs["listings"] += 1
    stand_in.on_lines = stand_in.on_request = lambda _: None
    code, _, err = await run(tmp_path, "--url", served.url, "--format", "ndjson")
    assert (code, err) == (0, "")
    assert copied(tmp_path) == stand_in.contents()
    assert sum("after" in query for _, query in stand_in.asked) >= rounds / 2
