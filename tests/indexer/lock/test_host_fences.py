"""Other hosts write into a candidate through an alias that only the present holder of its fence can open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from elasticsearch import ConnectionError  # noqa: A004 - the client's name for it

from indexer import LockedError
from indexer.errors import FencedError
from indexer.indices.adaptive_limit import AdaptiveLimit
from indexer.indices.bulk import BulkOptions, BulkSender, BulkWrite
from indexer.lock.fence import close_to_hosts, create_fence, open_to_hosts
from tests.indexer.bulk_writes import created_index
from tests.indexer.faulty_responses import FaultyResponses

if TYPE_CHECKING:
    from typing import Any

    from tests.indexer.conftest import Bench


async def aliases(bench: Bench, index: str) -> set[str]:
    """Return the aliases of an index."""
    found = await bench.client.indices.get_alias(index=index)
    return set(found[index]["aliases"])


async def test_hosts_write_until_the_candidate_is_closed_to_them(bench: Bench) -> None:
    index, context = await created_index(bench, "candidate"), bench.engine()
    fence = await create_fence(context, f"{index}-builder", 5, index)
    hosts = await open_to_hosts(context, index, fence)
    sender = BulkSender(
        bench.client, hosts, AdaptiveLimit(context.settings), context.settings, BulkOptions(require_alias=True)
    )
    await sender.send([BulkWrite("1", 1, b"{}")])
    await close_to_hosts(context, index, index)
    assert await aliases(bench, index) == {fence}
    with pytest.raises(FencedError):
        await sender.send([BulkWrite("2", 1, b"{}")])


async def test_a_run_that_lost_its_fence_cannot_open_a_candidate_to_hosts(bench: Bench) -> None:
    index, context = await created_index(bench, "candidate"), bench.engine()
    lost = await create_fence(context, f"{index}-builder", 5, index)
    left = await open_to_hosts(context, index, lost)
    present = await create_fence(context, f"{index}-builder", 6, index)
    # Until it is closed, the hosts of the earlier run may write what they read.
    assert await aliases(bench, index) == {left, present}
    await close_to_hosts(context, index, index)
    with pytest.raises(LockedError, match="taken over"):
        await open_to_hosts(context, index, lost)
    assert await aliases(bench, index) == {present}


async def test_a_lost_connection_ends_neither_the_fence_nor_its_closing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(_: dict[str, Any]) -> None:
        raise ConnectionError("lost")

    index, context = await created_index(bench, "candidate"), bench.engine()
    faulty = FaultyResponses(bench.client, monkeypatch)
    faulty.change(f"/_alias/{index}-builder-*", lost)
    fence = await create_fence(context, f"{index}-builder", 5, index)
    await open_to_hosts(context, index, fence)
    faulty.change(f"/_alias/{index}-builder-*-hosts", lost)
    await close_to_hosts(context, index, index)
    assert (await aliases(bench, index), faulty.seen) == ({fence}, 4)
