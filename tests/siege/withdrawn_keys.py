"""Keys that are revoked while they read: how long they go on receiving."""

import asyncio
import itertools
import time
from contextlib import suppress

from bench.questions import COMPANY
from service.keys.store import KeyGrant
from tests.siege.slow_readers import PAGE, status_of
from tests.siege.target import SiegeTarget, repeatedly, request_bytes

_READERS = 6
_READ_BYTES, _READ_EVERY_SECONDS = 4_096, 0.1
_ASK_SECONDS = 0.2
_READ_PATHS = (PAGE, "/v1/snapshot/listings", "/v1/reso/Property?$expand=Media,ListAgent&$top=500")


async def read_with_revoked_keys(target: SiegeTarget) -> None:
    """Read pages, snapshots, expansions and files slowly with keys of their own, revoke these, and read on."""
    if target.store is None:
        return
    paths = itertools.cycle([*_READ_PATHS, *target.files])

    async def attempt(_number: int) -> str:
        assert target.store is not None
        key = (await target.store.create(KeyGrant("revoked", companies=(COMPANY,), rate=None))).reveal()
        return await _read_on(target, key, next(paths))

    await repeatedly(_READERS, attempt, target.counter("readers with revoked keys"))


async def _read_on(target: SiegeTarget, key: str, path: str) -> str:
    """Begin to read, revoke the key, read on until the service ends it, and then ask until it refuses."""
    assert target.store is not None
    async with target.connected() as (reader, writer):
        writer.write(request_bytes(path, key))
        if (status := await status_of(reader)) != "200":
            return status
        await target.store.revoke(key[3:13])
        revoked = last = time.monotonic()
        with suppress(ConnectionError):
            while await reader.read(_READ_BYTES):
                last = time.monotonic()
                await asyncio.sleep(_READ_EVERY_SECONDS)
    target.withdrawals[path.partition("?")[0]].append(last - revoked)
    last = revoked
    while (status := await _asked_again(target, key)) == "200":
        last = time.monotonic()
        await asyncio.sleep(_ASK_SECONDS)
    target.withdrawals["new requests"].append(last - revoked)
    return f"received nothing more, then {status}"


async def _asked_again(target: SiegeTarget, key: str) -> str:
    async with target.connected() as (reader, writer):
        writer.write(request_bytes("/v1/companies", key))
        return await status_of(reader)
