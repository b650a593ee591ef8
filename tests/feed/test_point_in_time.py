"""Points in time: none stays open, whatever happens while it is opened."""

from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from service.changes.snapshot import PointInTime, open_point_in_time
from service.errors import EngineUnavailable
from service.search.engine import SearchEngine


class _Engine:
    """Opens a point in time, and cannot read again how many shards its index has."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.shards = self

    def require_available(self, _index: str) -> None:
        """Find it available."""

    async def repeat(self, _index: str, attempt: Callable[[None], Awaitable[PointInTime]]) -> PointInTime:
        """Take the index for one of a single shard."""
        return await attempt(None)

    async def request(self, method: str, _target: str, _body: bytes | None) -> tuple[int, bytes]:
        """Answer."""
        self.sent.append(method)
        return 200, b'{"id":"open","_shards":{"total":3,"successful":3,"skipped":0,"failed":0}}'

    async def checked(self, _index: str, _response: bytes) -> bytes:
        """Fail."""
        raise EngineUnavailable("scripted")


async def test_a_point_in_time_whose_shards_cannot_be_read_is_closed() -> None:
    engine = _Engine()
    with pytest.raises(EngineUnavailable):
        async with open_point_in_time(cast("SearchEngine", engine), "listings"):
            pass
    assert engine.sent == ["POST", "DELETE"]
