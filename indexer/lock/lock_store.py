"""The documents of a lock in the control index: the lock itself, and the request of a run that waits for it."""

import datetime as dt
import os
import secrets
import socket
from typing import Any, NamedTuple

import msgspec
from elasticsearch import AsyncElasticsearch, NotFoundError

# Distinguishes this process from an earlier one with the same id, as after a container restart.
PROCESS_NONCE = secrets.token_hex(8)


class LockHolder(msgspec.Struct, frozen=True):
    """The process that holds a lock. `started` is in milliseconds since 1970 by the clock of its own host."""

    host: str
    pid: int
    incarnation: str
    started: int
    opaque_id: str

    def __str__(self) -> str:
        since = dt.datetime.fromtimestamp(self.started // 1000, dt.UTC).isoformat()
        return f"Process {self.pid} on {self.host} has held the lock since {since}"

    @property
    def is_dead(self) -> bool:
        """Whether this is a process of this host that has ended; False for other hosts, whose processes are unknown."""
        return self.host == socket.gethostname() and not self._runs

    @property
    def _runs(self) -> bool:
        if self.pid == os.getpid():
            return self.incarnation == PROCESS_NONCE
        if os.name != "posix":
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True


class LockState(msgspec.Struct, frozen=True):
    """The document of a lock: the token of the latest acquisition, and its holder until the lock is released."""

    token: int
    holder: LockHolder | None


class VersionedLockState(NamedTuple):
    """A lock state and its version, the condition of the next write."""

    state: LockState
    seq_no: int
    primary_term: int


class LockStore:
    """Reads and writes one lock. Its document is never deleted, so its tokens only rise."""

    def __init__(self, client: AsyncElasticsearch, index: str, name: str) -> None:
        self.name = name
        self._client = client
        self._index = index

    async def read(self) -> VersionedLockState | None:
        """Return the current lock, None if it was never held."""
        response = await self._get(f"lock-{self.name}")
        if response is None:
            return None
        return VersionedLockState(
            msgspec.convert(response["_source"], LockState), response["_seq_no"], response["_primary_term"]
        )

    async def write(self, state: LockState, over: VersionedLockState | None) -> VersionedLockState:
        """Replace `over`, None if there was no document; raise ConflictError if the document has changed since."""
        condition: dict[str, Any] = {"op_type": "create"}
        if over is not None:
            condition = {"if_seq_no": over.seq_no, "if_primary_term": over.primary_term}
        document = msgspec.to_builtins(state)
        response = await self._client.index(index=self._index, id=f"lock-{self.name}", document=document, **condition)
        return VersionedLockState(state, response["_seq_no"], response["_primary_term"])

    async def request(self) -> None:
        """Announce that a run waits for the lock; to be renewed about every second."""
        await self._client.index(index=self._index, id=f"wanted-{self.name}", document={})

    async def request_version(self) -> int | None:
        """Return a number that rises whenever the request is renewed, None without a request."""
        response = await self._get(f"wanted-{self.name}")
        return None if response is None else int(response["_seq_no"])

    async def withdraw_request(self) -> None:
        """Withdraw the request. Other waiting runs renew it within about a second."""
        await self._client.options(ignore_status=404).delete(index=self._index, id=f"wanted-{self.name}")

    async def _get(self, document: str) -> Any:
        try:
            return await self._client.get(index=self._index, id=document)
        except NotFoundError:
            return None
