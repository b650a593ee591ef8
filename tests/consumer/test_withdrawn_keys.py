"""A key that is revoked or may read less while the client reads: what it reports, and what becomes of the copy."""

import asyncio
import sqlite3
from contextlib import closing
from math import inf
from pathlib import Path

import orjson
import pytest

from tests.consumer.conftest import run
from tests.indexer.conftest import module_bench
from tests.security.withdrawals import WITHDRAWALS, Stage, stage
from tests.waiting import until

__all__ = ["module_bench", "stage"]

# Searches of a snapshot: the digest, then two for each of four pages, of which two are sent.
_SEARCHES = 9


async def pulled(stage: Stage, key: str, folder: Path, *options: str, withdrawal: str) -> tuple[int, str, str]:
    """Pull a snapshot, and change the key in the middle of it; return the exit code, and what was written."""
    withdraw, _ = WITHDRAWALS[withdrawal]
    stage.held.pages, waiting = _SEARCHES, stage.held.waiting
    stage.held.until.clear()
    url = f"http://127.0.0.1:{stage.port}"
    pull = asyncio.create_task(run(folder, "--url", url, "--resources", "listings", *options, key=key))
    try:
        await until(lambda: stage.held.waiting > waiting and stage.is_sending(key))
        await withdraw(stage, key[3:13])
        await until(lambda: not stage.is_sending(key))
    finally:
        stage.held.pages = inf
        stage.held.until.set()
    return await pull


def stored(folder: Path) -> dict[str, object]:
    """Return the listings of a copy, by identifier."""
    with closing(sqlite3.connect(f"file:{folder / 'copy.sqlite3'}?mode=ro", uri=True)) as connection:
        rows = connection.execute("SELECT id, content, record FROM listings")
        return {identifier: (content, orjson.loads(record)) for identifier, content, record in rows}


async def shown(stage: Stage, key: str) -> dict[str, object]:
    """Return what a key may see, by identifier."""
    status, body = await stage.answer(key, "/v1/snapshot/listings")
    assert status == 200
    lines = [orjson.loads(line) for line in body.splitlines()[1:-1]]
    return {line["id"]: (line["content"], line["record"]) for line in lines}


@pytest.mark.parametrize("withdrawal", ["revoked", "expired", "deleted"])
async def test_a_pull_whose_key_ends_says_so_and_leaves_the_copy_as_it_was(
    stage: Stage, tmp_path: Path, withdrawal: str
) -> None:
    key, folder = await stage.key(), tmp_path / "copy"
    where = ("--url", f"http://127.0.0.1:{stage.port}", "--resources", "listings", "--no-files")
    assert (await run(folder, *where, key=key))[0] == 0
    before = stored(folder)
    assert before == await shown(stage, key)
    code, _, err = await pulled(stage, key, tmp_path / "second", "--no-files", withdrawal=withdrawal)
    assert (code, "/v1/snapshot/listings returned 401 unauthorized: The API key is not valid." in err) == (1, True), err
    code, _, err = await run(folder, *where, key=key)
    assert (code, "returned 401 unauthorized: The API key is not valid." in err) == (1, True), err
    assert stored(folder) == before


@pytest.mark.parametrize("withdrawal", ["fields", "licence"])
async def test_a_pull_whose_key_may_read_less_ends_with_what_it_may_read(
    stage: Stage, tmp_path: Path, withdrawal: str
) -> None:
    """Nothing of the half that it had read before stays."""
    key, folder = await stage.key(), tmp_path / "copy"
    code, out, err = await pulled(stage, key, folder, "--no-files", withdrawal=withdrawal)
    assert (code, err) == (0, ""), err
    assert orjson.loads(out.splitlines()[-1])["resources"]["listings"]["proof"] == "equal"
    assert stored(folder) == await shown(stage, key)
