"""Aliases and indices that are not as they should be: gone, swapped, closed, stale, lacking a shard."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from elasticsearch.helpers import async_bulk, async_scan

from mappings import LISTING
from mappings.index import index_body
from tests.chaos.play import playing
from tests.chaos.tally import GOOD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from contextlib import AbstractAsyncContextManager

    from tests.chaos.ground import Ground
    from tests.chaos.outcome import Outcome
    from tests.chaos.play import Play

# Pages that were read ahead are up to a second old, and requests on their way end by their own time.
_SETTLED_SECONDS = 1.5
_LEAST_SECONDS = 4.0  # who is refused comes back after about two


async def live(ground: Ground) -> str:
    """Return the index behind the alias of the listings."""
    [index] = await ground.nodes.client.indices.get_alias(name=ground.stage.connection.alias(LISTING))
    return str(index)


async def point(ground: Ground, index: str, instead_of: str) -> None:
    """Move the alias of the listings in one step."""
    alias = ground.stage.connection.alias(LISTING)
    remove = {"index": instead_of, "alias": alias, "must_exist": True}
    await ground.nodes.client.indices.update_aliases(
        actions=[{"add": {"index": index, "alias": alias}}, {"remove": remove}]
    )


async def _unusable(ground: Ground, fault: str, spoilt: AbstractAsyncContextManager[None]) -> Outcome:
    """Play a fault under which no listing can be read whole: all of that is refused, and nothing else is."""
    async with playing(ground) as play:
        async with spoilt:
            await play.read(_SETTLED_SECONDS)
            began, ended = await play.read(max(_LEAST_SECONDS, ground.extent.during / 3))
        mended = time.monotonic()
        await play.read(_LEAST_SECONDS)
        _judge_refusals(play, began, ended)
        back = [one for one in play.tally.between(mended, time.monotonic(), "/listings") if one.kind == GOOD]
        play.figures["first listings"] = f"{back[0].at - mended:.1f} s after it was mended" if back else "never"
        play.must(bool(back), "the listings did not come back")
    play.punctual()
    return play.outcome(fault)


def _judge_refusals(play: Play, began: float, ended: float) -> None:
    kinds = {one.kind for one in play.tally.between(began, ended, "/listings")}
    others = play.tally.between(began, ended, "/sold_listings")
    failed = [one for one in others if one.kind != GOOD]
    play.figures["sold listings meanwhile"] = f"{len(others) - len(failed)} of {len(others)} answered with 200"
    play.must(kinds == {"503"}, f"listings were answered with {sorted(kinds)}, not with 503 alone")
    play.must(bool(others), "no sold listings were asked for meanwhile")
    play.must(not failed, f"{len(failed)} requests for sold listings failed")


async def alias_gone(ground: Ground) -> Outcome:
    """Take the alias of the listings away, and give it back."""

    @asynccontextmanager
    async def gone() -> AsyncIterator[None]:
        indices, index, alias = ground.nodes.client.indices, await live(ground), ground.stage.connection.alias(LISTING)
        await indices.delete_alias(index=index, name=alias)
        try:
            yield
        finally:
            await indices.put_alias(index=index, name=alias)

    return await _unusable(ground, "the alias of the listings vanishes", gone())


async def closed(ground: Ground) -> Outcome:
    """Close the index of the listings, and open it."""

    @asynccontextmanager
    async def shut() -> AsyncIterator[None]:
        indices, index = ground.nodes.client.indices, await live(ground)
        await indices.close(index=index)
        try:
            yield
        finally:
            await indices.open(index=index)
            await ground.nodes.whole()

    return await _unusable(ground, "the index of the listings is closed", shut())


async def stale(ground: Ground) -> Outcome:
    """Let the alias name an index without the field that orders and bounds a company's feed."""
    body: dict[str, Any] = index_body(LISTING)
    body["mappings"] |= {"dynamic": False, "_meta": {"resource": LISTING.alias, "fingerprint": "0" * 16}}
    del body["mappings"]["properties"]["feed_key"]
    body["settings"] = {"index.number_of_shards": 1, "index.number_of_replicas": 0}
    return await _unusable(ground, "the alias names an index of another shape", _another(ground, body))


async def shard_unassigned(ground: Ground) -> Outcome:
    """Let the alias name an index with a shard that is on no node: what the other has could look like whole pages."""
    body: dict[str, Any] = index_body(LISTING)
    node = ground.nodes.cluster.processes[0].name
    body["settings"] |= {"index.number_of_shards": 2, "index.number_of_replicas": 0}
    # One node may have one shard, and no other node any.
    only = "index.routing.allocation."
    body["settings"] |= {f"{only}require._name": node, f"{only}total_shards_per_node": 1}
    return await _unusable(ground, "one of two shards of the listings is on no node", _another(ground, body))


@asynccontextmanager
async def _another(ground: Ground, body: dict[str, Any]) -> AsyncIterator[None]:
    """Let the alias name another index, which has the same documents, as many as it takes."""
    index, name = await live(ground), f"{ground.stage.connection.alias(LISTING)}-v9001"
    client = ground.nodes.client
    await client.indices.delete(index=name, ignore_unavailable=True)
    await client.indices.create(index=name, **body, wait_for_active_shards=0)
    try:
        await client.cluster.health(index=name, wait_for_active_shards=1, timeout="30s")
        found = async_scan(client, index=index)
        copies = [{"_index": name, "_id": hit["_id"], "_source": hit["_source"]} async for hit in found]
        # A shard that is on no node is not waited for.
        taken, _ = await async_bulk(client, copies, raise_on_error=False, timeout="100ms", refresh=True)
        if not taken:
            raise RuntimeError("The other index took no document.")
        await point(ground, name, index)
        yield
        await point(ground, index, name)
    finally:
        await client.indices.delete(index=name)
