"""What follows a publication of marks, whichever command has published them.

Files of whole companies are no step of the indexer, since the service writes them: after a rebuild, its command does
(BROKERAGE_PUBLISH_AFTER_SWAP).
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from indexer.reso.event_ledger import publish_events
from indexer.settings import IndexerContext

Allows: TypeAlias = Callable[[int], bool]
Hook: TypeAlias = Callable[[IndexerContext, Allows], Awaitable[None]]

AFTER_PUBLISH: tuple[Hook, ...] = (publish_events,)


async def after_publish(
    context: IndexerContext, allows: Allows = lambda _growth: True, seconds: float | None = None
) -> None:
    """Do what follows a publication; repeated, it does what is missing.

    `allows` may postpone what grows by a given number of publications. `seconds` limits the retries while Elasticsearch
    is unreachable, by default to BROKERAGE_BULK_RETRY_SECONDS.
    """
    if seconds is not None:
        context = replace(context, settings=replace(context.settings, retry_seconds=seconds))
    for hook in AFTER_PUBLISH:
        await hook(context, allows)


# During a run what is appended may grow by this many publications at once, then by one per this many seconds.
_BURST_PUBLICATIONS = 100
_SECONDS_PER_PUBLICATION = 60.0


class PublicationPace:
    """Limits how much is appended during a run: alternating changes of several resources are appended together."""

    def __init__(self) -> None:
        self._due = 0.0

    def allows(self, growth: int) -> bool:
        """Return whether it may grow by so many publications now, and count them if so."""
        now = time.monotonic()
        due = max(self._due, now) + growth * _SECONDS_PER_PUBLICATION
        if growth > 0 and due > now + _BURST_PUBLICATIONS * _SECONDS_PER_PUBLICATION:
            return False
        self._due = due if growth > 0 else self._due
        return True
