"""Opens a write session for an update, which may hold the sessions of other resources."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from indexer.changes.write_session import WriteSession, open_write_session
from indexer.context import IndexerContext
from indexer.errors import LockedError
from mappings import Resource

BeforeWait = Callable[[], Awaitable[None]]


async def release_nothing() -> None:
    """Release nothing: there is no other resource."""


@dataclass(frozen=True)
class SessionOpening:
    """Opens a session at once, or awaits `before_wait` and then waits for the lock.

    A run that waits must not hold locks of other resources: the swap of a rebuild holds several, and may wait for them.
    """

    context: IndexerContext
    resource: Resource
    on_wait: Callable[[str], None]
    before_wait: BeforeWait

    async def enter(self, stack: AsyncExitStack) -> WriteSession:
        """Return the open session, which ends with the stack; raise LockedError."""
        try:
            return await self._enter(stack, 0.0)
        except LockedError:
            await self.before_wait()
        return await self._enter(stack, self.context.settings.write_wait_seconds)

    async def _enter(self, stack: AsyncExitStack, seconds: float) -> WriteSession:
        context = replace(self.context, settings=replace(self.context.settings, write_wait_seconds=seconds))
        return await stack.enter_async_context(open_write_session(context, self.resource, self.on_wait))
