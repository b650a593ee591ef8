"""Hosts that help a build, as the coordinator sees them, and their places: each loads one range at a time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from indexer.build.hosts.build_terms import bytes_digest
from indexer.build.hosts.shared_documents import HostedLines, PlacedRange, place_id, unpack
from indexer.build.parallel.loader_process import LoaderExited
from indexer.build.parallel.messages import RangeOutcome
from indexer.source.line_ranges import FileRange

if TYPE_CHECKING:
    from collections.abc import Callable

    from indexer.build.hosts.shared_documents import HostOffer
    from indexer.build.hosts.shared_store import Found, SharedStore
    from indexer.build.parallel.messages import LoadOrder
    from indexer.source.line_ranges import LineRange


@dataclass
class RemoteHost:
    """A host that helps, by the latest version of its document; `places` are those in use."""

    name: str
    offer: HostOffer
    found: Found
    seen_at: float = field(default_factory=time.monotonic)
    places: list[RemotePlace] = field(default_factory=list)

    def see(self, found: Found) -> None:
        """Take over a newer version of the document, a sign of life."""
        if found.seq_no != self.found.seq_no:
            self.found, self.seen_at = found, time.monotonic()

    def close(self, reason: str) -> None:
        """Let others load what its places have."""
        for place in self.places:
            place.close(f"the loss of {self.offer.name}: {reason}")
        self.places = []


@dataclass
class RemotePlace:
    """A place of a host during the load of one resource. `exits` collects what ended loaders of the host."""

    host: RemoteHost
    id: str
    store: SharedStore
    order: int
    next_number: Callable[[], int]
    exits: list[str]
    is_open: bool = True
    expected: int | None = None  # the number of the range that the host loads
    _outcome: asyncio.Future[str] | None = None

    @classmethod
    def of(
        cls, host: RemoteHost, store: SharedStore, order: int, next_number: Callable[[], int], exits: list[str]
    ) -> list[RemotePlace]:
        """Open all places of a host."""
        ids = [place_id(host.name, number) for number in range(host.offer.places)]
        host.places = [cls(host, each, store, order, next_number, exits) for each in ids]
        return host.places

    async def load(self, order: LoadOrder, lines: LineRange) -> RangeOutcome:
        """Let the host load a range; raise LoaderExited if it is lost."""
        assert isinstance(lines, FileRange), "hosts read files of their own"  # noqa: S101
        number, span = self.next_number(), (lines.start, lines.position)
        digest = await asyncio.to_thread(bytes_digest, lines.path, span)
        self._outcome = asyncio.get_running_loop().create_future()
        placed = PlacedRange(
            self.host.offer.nonce, number, self.order, (*span, lines.before, lines.lines, lines.after), digest
        )
        await self.store.write(self.id, placed)
        self.expected = number
        if not self.is_open:
            raise LoaderExited(f"the loss of {self.host.offer.name}")
        try:
            hosted = unpack(await self._outcome, HostedLines)
        finally:
            self.expected = None
        self.exits += hosted.exits
        return RangeOutcome(number, hosted.loaded(order.resource), hosted.sample)

    def see(self, found: Found | None) -> None:
        """Take the outcome from the document of this place; another range there is of a run that took over."""
        placed = found and found.read(PlacedRange)
        if self._outcome is None or self._outcome.done():
            return
        if placed is None or (placed.nonce, placed.number) != (self.host.offer.nonce, self.expected):
            self.close(f"the loss of a range of {self.host.offer.name}")
        elif placed.outcome:
            self._outcome.set_result(placed.outcome)

    def close(self, reason: str) -> None:
        """Accept nothing any more."""
        self.is_open = False
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_exception(LoaderExited(reason))
