"""Batched reads: each request gets its record, never an older one than at its arrival."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar

import pytest

from service.search.engine import BatchLoader
from tests.internals import Internals
from tests.waiting import until

PLACE = "listings"


@pytest.fixture(autouse=True)
def no_slow_search(internals: Internals) -> None:
    """Consider no search slow: a busy machine may pause for longer than a search takes."""
    internals(slow_read_seconds=3600.0)


class Searches:
    """Searches that end on demand; records with upper-case names do not exist."""

    def __init__(self) -> None:
        self.asked: list[Sequence[str]] = []
        self.given_up: list[Sequence[str]] = []
        self.ends: list[asyncio.Future[None]] = []

    async def __call__(self, names: Sequence[str]) -> Mapping[str, bytes]:
        self.asked.append(list(names))
        self.ends.append(asyncio.get_running_loop().create_future())
        try:
            await self.ends[-1]
        except asyncio.CancelledError:
            self.given_up.append(list(names))
            raise
        return {name: name.encode() for name in names if name.islower()}

    async def end(self, number: int, error: Exception | None = None) -> None:
        """End a search, and let its requests finish."""
        if error is None:
            self.ends[number].set_result(None)
        else:
            self.ends[number].set_exception(error)
        for _ in range(5):
            await asyncio.sleep(0)


async def begun(loader: BatchLoader, search: Searches, *names: str) -> list[asyncio.Task[object]]:
    """Request records, each by itself."""
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(loader.load(PLACE, name, search)) for name in names]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_a_batch_is_read_by_one_of_its_own_requests() -> None:
    """By one of an earlier batch, what that request knows would never get newer under constant load."""
    loader, first, second = BatchLoader(), Searches(), Searches()
    request = ContextVar[str]("request")
    readers: list[str] = []

    async def read(names: Sequence[str]) -> Mapping[str, bytes]:
        readers.append(request.get())
        return await second(names)

    request.set("first")
    tasks = await begun(loader, first, "a")
    request.set("second")
    tasks += await begun(loader, read, "b")  # type: ignore[arg-type]
    await first.end(0)
    await second.end(0)
    assert await asyncio.gather(*tasks) == [b"a", b"b"]
    assert (first.asked, second.asked, readers) == ([["a"]], [["b"]], ["second"])


async def test_requests_during_a_search_are_batched() -> None:
    loader, search = BatchLoader(), Searches()
    tasks = [*await begun(loader, search, "a"), *await begun(loader, search, "c", "D", "e", "c")]
    assert search.asked == [["a"]]
    await search.end(0)
    assert search.asked == [["a"], ["c", "D", "e"]]
    await search.end(1)
    assert await asyncio.gather(*tasks) == [b"a", b"c", None, b"e", b"c"]


async def test_a_record_is_never_answered_by_a_search_that_began_before_the_request() -> None:
    loader, search = BatchLoader(), Searches()
    early = await begun(loader, search, "a")
    late = await begun(loader, search, "a")
    await search.end(0)
    assert (early[0].done(), late[0].done()) == (True, False)
    assert search.asked == [["a"], ["a"]]
    await search.end(1)
    assert late[0].result() == b"a"


async def test_a_slow_search_blocks_no_other(internals: Internals, loop_log: Callable[[], list[str]]) -> None:
    internals(slow_read_seconds=0.0)
    loader, search = BatchLoader(), Searches()
    (stuck,) = await begun(loader, search, "a")
    (second,) = await begun(loader, search, "b")
    await until(lambda: search.asked == [["a"], ["b"]])
    await search.end(1)
    assert (await second, stuck.done()) == (b"b", False)
    await search.end(0)
    assert await stuck == b"a"
    assert loop_log() == []


async def test_a_search_that_ends_in_time_is_followed_by_no_other(internals: Internals) -> None:
    internals(slow_read_seconds=0.02)
    loader, search = BatchLoader(), Searches()
    (only,) = await begun(loader, search, "a")
    await search.end(0)
    assert await only == b"a"
    (stuck,), (waiting,) = await begun(loader, search, "b"), await begun(loader, search, "c")
    await until(lambda: len(search.asked) == 3)
    for number in (1, 2):
        await search.end(number)
    assert [await stuck, await waiting] == [b"b", b"c"]
    assert search.asked == [["a"], ["b"], ["c"]]


async def test_a_batch_behind_a_slow_search_is_served(internals: Internals) -> None:
    internals(slow_read_seconds=0.02)
    loader, search = BatchLoader(), Searches()
    stuck, *behind = [*await begun(loader, search, "a"), *await begun(loader, search, "b", "c")]
    await until(lambda: len(search.asked) == 2)
    assert search.asked == [["a"], ["b", "c"]]
    await search.end(1)
    assert await asyncio.gather(*behind) == [b"b", b"c"]
    await search.end(0)
    assert await stuck == b"a"


async def test_other_groups_are_searched_separately() -> None:
    loader, here, there = BatchLoader(), Searches(), Searches()
    tasks = await begun(loader, here, "a")
    other = asyncio.create_task(loader.load("elsewhere", "a", there))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await there.end(0)
    assert (await other, tasks[0].done()) == (b"a", False)
    await here.end(0)


async def test_a_failure_reaches_its_requests_only() -> None:
    loader, search = BatchLoader(), Searches()
    (failing,) = await begun(loader, search, "a")
    await search.end(0, ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        await failing
    (again,) = await begun(loader, search, "a")
    await search.end(1)
    assert await again == b"a"


async def test_a_cancelled_request_does_not_affect_the_others() -> None:
    loader, search = BatchLoader(), Searches()
    leaving, staying = await begun(loader, search, "a", "a")
    leaving.cancel()
    await search.end(0)
    assert await staying == b"a"


async def test_a_failure_without_waiters_is_not_reported(loop_log: Callable[[], list[str]]) -> None:
    loader, search = BatchLoader(), Searches()
    (leaving,) = await begun(loader, search, "a")
    leaving.cancel()
    await search.end(0, ValueError("broken"))
    assert loop_log() == []


async def test_many_go_in_several_searches_and_nothing_is_kept_in_the_end() -> None:
    loader, search = BatchLoader(), Searches()
    tasks = await begun(loader, search, *(f"r{number:03}" for number in range(200)))
    while not all(task.done() for task in tasks):
        await search.end(next(number for number, end in enumerate(search.ends) if not end.done()))
    assert max(map(len, search.asked)) == 64
    assert sorted(name for names in search.asked for name in names) == [f"r{number:03}" for number in range(200)]


async def leave(*tasks: asyncio.Task[object]) -> None:
    """Cancel requests, and let the consequences happen."""
    for task in tasks:
        task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_search_is_given_up_with_the_last_of_those_that_it_is_for() -> None:
    loader, search = BatchLoader(), Searches()
    first, second, third = await begun(loader, search, "a", "b", "b")
    await leave(first, third)
    assert search.given_up == []
    await leave(second)
    assert search.given_up == [["a", "b"]]
    (again,) = await begun(loader, search, "a")
    await search.end(1)
    assert await again == b"a"


async def test_a_batch_behind_a_cancelled_search_is_served() -> None:
    loader, search = BatchLoader(), Searches()
    (leaving,), (behind,) = await begun(loader, search, "a"), await begun(loader, search, "b")
    await leave(leaving)
    assert (search.asked, search.given_up) == ([["a"], ["b"]], [["a"]])
    await search.end(1)
    assert await behind == b"b"


async def test_a_batch_without_waiters_is_never_searched() -> None:
    loader, search = BatchLoader(), Searches()
    (first,), (leaving,) = await begun(loader, search, "a"), await begun(loader, search, "b")
    await leave(leaving)
    await search.end(0)
    assert (await first, search.asked) == (b"a", [["a"]])
    assert loader._queues == {}
