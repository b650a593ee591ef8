"""What the control index holds about a lock: the document of the lock itself, and the wish of a run that waits."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from elasticsearch import NotFoundError

if TYPE_CHECKING:
    from elasticsearch import AsyncElasticsearch

# Tells this process from an earlier one with the same number, as in a container that starts again.
INCARNATION = secrets.token_hex(8)


class Holder(msgspec.Struct, frozen=True):
    """The process that holds a lock, since `started`: milliseconds since 1970 by the clock of its own host."""

    host: str
    pid: int
    incarnation: str
    started: int
    opaque_id: str

    def __str__(self) -> str:
        """Say who it is and since when it holds the lock."""
        since = dt.datetime.fromtimestamp(self.started // 1000, dt.UTC).isoformat()
        return f"Process {self.pid} on {self.host} has held the lock since {since}"

    @property
    def is_dead(self) -> bool:
        """Whether this is a process of this host that runs no more; of other hosts nothing is known."""
        return self.host == socket.gethostname() and not self._runs

    @property
    def _runs(self) -> bool:
        if self.pid == os.getpid():
            return self.incarnation == INCARNATION
        if os.name != "posix":
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


class State(msgspec.Struct, frozen=True):
    """The document of a lock: the token of the latest holding, and its holder until the lock is released."""

    token: int
    holder: Holder | None


class Found(NamedTuple):
    """A state with its place in the order of all writes, the condition of the next write."""

    state: State
    seq_no: int
    primary_term: int


class Place:
    """Where one lock is kept. Its document is never deleted, so that its tokens only rise."""

    def __init__(self, client: AsyncElasticsearch, index: str, name: str) -> None:
        """Nothing is read yet."""
        self.name = name
        self._client = client
        self._index = index

    async def read(self) -> Found | None:
        """Return the lock as it is now, None if it was never held."""
        answer = await self._get(f"lock-{self.name}")
        if answer is None:
            return None
        return Found(msgspec.convert(answer["_source"], State), answer["_seq_no"], answer["_primary_term"])

    async def write(self, state: State, over: Found | None) -> Found:
        """Write over what was found, None if nothing was; raise ConflictError when something else is there by now."""
        condition: dict[str, Any] = {"op_type": "create"}
        if over is not None:
            condition = {"if_seq_no": over.seq_no, "if_primary_term": over.primary_term}
        document = msgspec.to_builtins(state)
        answer = await self._client.index(index=self._index, id=f"lock-{self.name}", document=document, **condition)
        return Found(state, answer["_seq_no"], answer["_primary_term"])

    async def wish(self) -> None:
        """Say that a run waits for the lock; to be said again about each second."""
        await self._client.index(index=self._index, id=f"wanted-{self.name}", document={})

    async def wished(self) -> int | None:
        """Return a number that rises whenever the wish is renewed, None without a wish."""
        answer = await self._get(f"wanted-{self.name}")
        return None if answer is None else int(answer["_seq_no"])

    async def unwish(self) -> None:
        """Take the wish back. Other runs that wait renew it within about a second."""
        await self._client.options(ignore_status=404).delete(index=self._index, id=f"wanted-{self.name}")

    async def _get(self, document: str) -> Any:
        try:
            return await self._client.get(index=self._index, id=document)
        except NotFoundError:
            return None
