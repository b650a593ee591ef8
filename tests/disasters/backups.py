"""Elasticsearch's snapshots of the indices of a run, in a repository of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.disasters.disaster_world import DisasterWorld


async def back_up(world: DisasterWorld, repository: str, name: str, pattern: str) -> None:
    """Take a snapshot of the indices of a pattern; the repository is created with its first one."""
    location = str(world.backups / repository)
    await world.admin.snapshot.create_repository(
        name=repository, repository={"type": "fs", "settings": {"location": location}}, verify=False
    )
    taken = await world.admin.snapshot.create(
        repository=repository, snapshot=name, indices=pattern, include_global_state=False, wait_for_completion=True
    )
    assert taken["snapshot"]["state"] == "SUCCESS", taken


async def restore(world: DisasterWorld, repository: str, name: str, pattern: str) -> None:
    """Replace the indices of a pattern with those of a snapshot."""
    await delete(world, pattern)
    restored = await world.admin.snapshot.restore(
        repository=repository, snapshot=name, indices=pattern, include_global_state=False, wait_for_completion=True
    )
    assert restored["snapshot"]["shards"]["failed"] == 0, restored


async def delete(world: DisasterWorld, pattern: str) -> None:
    """Delete the indices of a pattern, closed ones included."""
    if names := list(await world.admin.indices.get(index=pattern, expand_wildcards="all", ignore_unavailable=True)):
        await world.admin.indices.delete(index=names)
