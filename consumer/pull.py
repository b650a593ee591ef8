"""The copy is brought up to date: snapshots where there is no usable token, then changes, each with its checkpoint."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from consumer.errors import TokenExpired
from consumer.standing import Stage, Standing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from consumer.answers import Page, Record
    from consumer.copies.copy import Copy
    from consumer.feed import Feed

    Touched = set[tuple[str, str]]

BATCH_RECORDS = 1000
# A token that is void again as soon as its snapshot is complete would be taken for ever.
_MOST_ROUNDS = 3


class Pull:
    """Keeps a copy of some resources. `show` hears of every step of each."""

    def __init__(self, feed: Feed, copy: Copy, resources: Sequence[str], show: Callable[[Standing], None]) -> None:
        """Nothing is asked yet. The resources are in the order in which they are told."""
        self.feed, self.copy, self.resources = feed, copy, resources
        self.standings = {resource: Standing(resource) for resource in resources}
        self._show = show

    async def catch_up(self, wait: int = 0, touched: Touched | None = None) -> None:
        """Take what snapshots there must be, and all changes up to the end; the first is waited for so many seconds.

        `touched` gathers resources and identifiers of what came.
        """
        for _ in range(_MOST_ROUNDS):
            for resource in self.resources:
                if self._token(resource) is None:
                    await self.take_snapshot(resource)
            try:
                await self._together(wait, touched)
            except TokenExpired:
                await self._each(touched)
            else:
                return
        await self._together(0, touched)

    async def _together(self, wait: int, touched: Touched | None) -> None:
        """Read the changes of all resources, so that what a record refers to comes before it."""
        if len({self._token(resource) for resource in self.resources}) > 1:
            # One of them may stand for several resources, and no two may stand for the same.
            await self._each(touched)
        tokens = dict.fromkeys(self._token(resource) or "" for resource in self.resources)
        await self._apply([*tokens], self.resources, wait, touched)

    async def _each(self, touched: Touched | None) -> None:
        """Read the changes of one resource after the other; where its token is void, take a snapshot."""
        for resource in self.resources:
            try:
                await self._apply([self._token(resource) or ""], [resource], 0, touched)
            except TokenExpired:
                await self.take_snapshot(resource)

    async def _apply(self, tokens: Sequence[str], resources: Sequence[str], wait: int, touched: Touched | None) -> None:
        asked = self.feed.changes(tokens, resources=resources, wait=wait)
        async with aclosing(asked) as pages:
            async for page in pages:
                await asyncio.to_thread(self.copy.apply, page, resources)
                self._count(page)
                if touched is not None:
                    touched |= {(change.resource, change.id) for change in page.changes}
        for resource in resources:
            self.say(resource, Stage.CURRENT)

    def _count(self, page: Page) -> None:
        for change in page.changes:
            standing = self.standings[change.resource]
            standing.changed += change.reason is None
            standing.removed += change.reason is not None
        for resource in dict.fromkeys(change.resource for change in page.changes):
            self.say(resource, Stage.CHANGES)

    def _token(self, resource: str) -> str | None:
        """Return where changes go on from; None where a snapshot is wanted or under way."""
        place = self.copy.place(resource)
        return None if place.coming else place.token

    async def take_snapshot(self, resource: str) -> None:
        """Take a snapshot, or go on with one. What is held stays meanwhile; what it lacks goes when it is complete."""
        place, standing = await asyncio.to_thread(self.copy.place, resource), self.standings[resource]
        header, records = await self.feed.snapshot(resource, place.after)
        async with aclosing(records):
            if place.coming is None:
                await asyncio.to_thread(self.copy.begin, resource, header)
            standing.total = header.count if place.after is None else max(place.expected, header.count)
            standing.done = standing.resumed_at = standing.total - header.count
            async for batch in _batches(records):
                await asyncio.to_thread(self.copy.add, resource, batch)
                standing.done += len(batch)
                self.say(resource, Stage.SNAPSHOT)
        standing.removed += await asyncio.to_thread(self.copy.complete, resource)
        standing.snapshots += 1

    def say(self, resource: str, stage: Stage) -> None:
        """Tell the watcher of a step."""
        standing = self.standings[resource]
        standing.stage, standing.note = stage, None
        self._show(standing)

    def say_waiting(self, seconds: float, reason: str) -> None:
        """Tell the watcher that an attempt has failed, and when the next is made."""
        for standing in self.standings.values():
            if standing.stage is not Stage.CURRENT:
                standing.note = f"again in {seconds:.0f} s: {reason}"
                self._show(standing)


async def _batches(records: AsyncIterator[Record]) -> AsyncIterator[list[Record]]:
    batch: list[Record] = []
    async for record in records:
        batch.append(record)
        if len(batch) == BATCH_RECORDS:
            yield batch
            batch = []
    if batch:
        yield batch
