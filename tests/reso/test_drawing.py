"""Servers by chance: a careful reader finds everything on each of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp
import pytest

from tests.reso.drawing import LIES, drawn
from tests.reso.reading import Reader, reader
from tests.reso.world import make_world

if TYPE_CHECKING:
    from tests.reso.schema import Record

_RETRIED = (aiohttp.ClientPayloadError, json.JSONDecodeError, AssertionError)


def test_a_seed_draws_one_server_and_seeds_differ() -> None:
    servers = [drawn(seed) for seed in range(40)]
    assert servers[3] == drawn(3)
    assert {server.paging for server in servers} == {"skip", "token"}
    assert {bool(server.faults) for server in servers} == {True, False}
    assert drawn(3, max_page=77).max_page == 77


def test_lies_are_told_only_where_they_are_asked_for() -> None:
    assert not any(set(LIES) & set(drawn(seed).faults) for seed in range(40))
    assert any(set(LIES) <= set(drawn(seed, lies=True).faults) for seed in range(40))


async def _rows(reading: Reader, where: str) -> list[Record]:
    for _ in range(10):
        try:
            return await reading.rows(
                "Property", orderby="ListingKey", select="ListingKey", **({"filter": where} if where else {})
            )
        except _RETRIED:
            continue
    raise AssertionError


@pytest.mark.parametrize("seed", range(10))
async def test_a_reader_that_repeats_what_failed_reads_everything(seed: int) -> None:
    world = make_world(seed, properties=150, media=0, open_houses=0, members=20, offices=5)
    async with reader(drawn(seed), world) as reading:
        found, where = [], ""
        while rows := await _rows(reading, where):
            found += [row["ListingKey"] for row in rows]
            last = found[-1].replace("'", "''")
            where = f"ListingKey gt '{last}'"
        assert found == reading.server.keys("Property")
