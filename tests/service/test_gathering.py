"""Single records that are asked for together: each gets its own, and nobody an older one than when he came."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

from service.gathering import Gathering
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLACE = "listings"


class Searches:
    """Searches that end when they are told to; what is asked for by a name in capitals is not there."""

    def __init__(self) -> None:
        """Begin with none."""
        self.asked: list[Sequence[str]] = []
        self.given_up: list[Sequence[str]] = []
        self.ends: list[asyncio.Future[None]] = []

    async def __call__(self, names: Sequence[str]) -> Mapping[str, bytes]:
        """Wait, then find."""
        self.asked.append(list(names))
        self.ends.append(asyncio.get_running_loop().create_future())
        try:
            await self.ends[-1]
        except asyncio.CancelledError:
            self.given_up.append(list(names))
            raise
        return {name: name.encode() for name in names if name.islower()}

    async def end(self, number: int, error: Exception | None = None) -> None:
        """End a search, and let those who asked go on."""
        if error is None:
            self.ends[number].set_result(None)
        else:
            self.ends[number].set_exception(error)
        for _ in range(5):
            await asyncio.sleep(0)


async def begun(gathering: Gathering, search: Searches, *names: str) -> list[asyncio.Task[object]]:
    """Ask for records, one request each."""
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(gathering.get(PLACE, name, search)) for name in names]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


async def test_what_is_asked_for_meanwhile_goes_together() -> None:
    gathering, search = Gathering(), Searches()
    tasks = [*await begun(gathering, search, "a"), *await begun(gathering, search, "c", "D", "e", "c")]
    assert search.asked == [["a"]]
    await search.end(0)
    assert search.asked == [["a"], ["c", "D", "e"]]
    await search.end(1)
    assert await asyncio.gather(*tasks) == [b"a", b"c", None, b"e", b"c"]


async def test_a_record_is_never_answered_by_a_search_that_began_before_the_request() -> None:
    gathering, search = Gathering(), Searches()
    early = await begun(gathering, search, "a")
    late = await begun(gathering, search, "a")
    await search.end(0)
    assert (early[0].done(), late[0].done()) == (True, False)
    assert search.asked == [["a"], ["a"]]
    await search.end(1)
    assert late[0].result() == b"a"


async def test_a_search_that_takes_long_holds_nobody_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("service.gathering._PATIENCE_SECONDS", 0.0)
    gathering, search = Gathering(), Searches()
    (stuck,) = await begun(gathering, search, "a")
    await until(lambda: not gathering._queues)
    (second,) = await begun(gathering, search, "b")
    assert search.asked == [["a"], ["b"]]
    await search.end(1)
    assert (await second, stuck.done()) == (b"b", False)
    await search.end(0)
    assert await stuck == b"a"
    gc.collect()
    assert caplog.records == []


async def test_a_search_that_ends_in_time_is_followed_by_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.gathering._PATIENCE_SECONDS", 0.02)
    gathering, search = Gathering(), Searches()
    (only,) = await begun(gathering, search, "a")
    await search.end(0)
    assert await only == b"a"
    (stuck,), (waiting,) = await begun(gathering, search, "b"), await begun(gathering, search, "c")
    await until(lambda: len(search.asked) == 3)
    for number in (1, 2):
        await search.end(number)
    assert [await stuck, await waiting] == [b"b", b"c"]
    assert search.asked == [["a"], ["b"], ["c"]]


async def test_who_waits_behind_a_search_that_takes_long_is_served_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.gathering._PATIENCE_SECONDS", 0.02)
    gathering, search = Gathering(), Searches()
    stuck, *behind = [*await begun(gathering, search, "a"), *await begun(gathering, search, "b", "c")]
    await until(lambda: len(search.asked) == 2)
    assert search.asked == [["a"], ["b", "c"]]
    await search.end(1)
    assert await asyncio.gather(*behind) == [b"b", b"c"]
    await search.end(0)
    assert await stuck == b"a"


async def test_other_places_are_asked_apart() -> None:
    gathering, here, there = Gathering(), Searches(), Searches()
    tasks = await begun(gathering, here, "a")
    other = asyncio.create_task(gathering.get("elsewhere", "a", there))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await there.end(0)
    assert (await other, tasks[0].done()) == (b"a", False)
    await here.end(0)


async def test_a_failure_reaches_those_who_asked_and_nobody_else() -> None:
    gathering, search = Gathering(), Searches()
    (failing,) = await begun(gathering, search, "a")
    await search.end(0, ValueError("broken"))
    with pytest.raises(ValueError, match="broken"):
        await failing
    (again,) = await begun(gathering, search, "a")
    await search.end(1)
    assert await again == b"a"


async def test_who_leaves_takes_nothing_from_the_others() -> None:
    gathering, search = Gathering(), Searches()
    leaving, staying = await begun(gathering, search, "a", "a")
    leaving.cancel()
    await search.end(0)
    assert await staying == b"a"


async def test_a_failure_that_nobody_waits_for_is_no_complaint(caplog: pytest.LogCaptureFixture) -> None:
    gathering, search = Gathering(), Searches()
    (leaving,) = await begun(gathering, search, "a")
    leaving.cancel()
    await search.end(0, ValueError("broken"))
    assert caplog.records == []


async def test_many_go_in_several_searches_and_nothing_is_kept_in_the_end() -> None:
    gathering, search = Gathering(), Searches()
    tasks = await begun(gathering, search, *(f"r{number:03}" for number in range(200)))
    while not all(task.done() for task in tasks):
        await search.end(next(number for number, end in enumerate(search.ends) if not end.done()))
    assert max(map(len, search.asked)) == 64
    assert sorted(name for names in search.asked for name in names) == [f"r{number:03}" for number in range(200)]
    assert gathering._queues == {}


async def leave(*tasks: asyncio.Task[object]) -> None:
    """Let clients leave, and what follows happen."""
    for task in tasks:
        task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_search_is_given_up_with_the_last_of_those_that_it_is_for() -> None:
    gathering, search = Gathering(), Searches()
    first, second, third = await begun(gathering, search, "a", "b", "b")
    await leave(first, third)
    assert search.given_up == []
    await leave(second)
    assert (search.given_up, gathering._queues) == ([["a", "b"]], {})
    (again,) = await begun(gathering, search, "a")
    await search.end(1)
    assert await again == b"a"


async def test_who_waits_behind_a_search_that_is_given_up_is_served() -> None:
    gathering, search = Gathering(), Searches()
    (leaving,), (behind,) = await begun(gathering, search, "a"), await begun(gathering, search, "b")
    await leave(leaving)
    assert (search.asked, search.given_up) == ([["a"], ["b"]], [["a"]])
    await search.end(1)
    assert (await behind, gathering._queues) == (b"b", {})


async def test_what_nobody_waits_for_any_more_is_never_asked_for() -> None:
    gathering, search = Gathering(), Searches()
    (first,), (leaving,) = await begun(gathering, search, "a"), await begun(gathering, search, "b")
    await leave(leaving)
    await search.end(0)
    assert (await first, search.asked, gathering._queues) == (b"a", [["a"]], {})
