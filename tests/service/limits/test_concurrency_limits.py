"""Which requests get a slot, wait or are refused, in every order of arriving, leaving and being cancelled."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import Overloaded
from service.limits.admission import ConcurrencyLimit, ShareExceeded
from tests.internals import Clock, Internals
from tests.logs import logged
from tests.waiting import until

PLACES, ROOM = 2, 3
# No test runs for as long.
FOR_EVER = 3600.0


@pytest.fixture
def clock(internals: Internals) -> Clock:
    """The clock of limits."""
    clock = Clock()
    internals(admission_time=clock)
    return clock


@dataclass(eq=False)
class Visitor:
    """A request of a key: it holds its slot until it may go, perhaps with a fault."""

    name: int
    key: str
    go: asyncio.Event = field(default_factory=asyncio.Event)
    fault: Exception | None = None


class Crowd:
    """Visitors of a limit: who is inside, who entered at once, and who did after a wait."""

    def __init__(self, limit: ConcurrencyLimit) -> None:
        self.limit = limit
        self.inside: list[Visitor] = []
        self.entered: list[int] = []
        self.waited: list[int] = []
        self.visits: dict[Visitor, asyncio.Task[None]] = {}

    def come(self, key: str = "a") -> Visitor:
        """Let one more come; it acts when the loop goes on."""
        visitor = Visitor(len(self.visits), key)
        self.visits[visitor] = asyncio.create_task(self._visit(visitor))
        return visitor

    async def _visit(self, visitor: Visitor) -> None:
        # Who finds a free place gets it in the same moment; who was handed one a moment before may act after that.
        must_wait = self.limit.running == self.limit.slots
        assert must_wait or not self.limit.waiting
        async with self.limit.slot(visitor.key):
            (self.waited if must_wait else self.entered).append(visitor.name)
            self.inside.append(visitor)
            try:
                await visitor.go.wait()
                if visitor.fault is not None:
                    raise visitor.fault
            finally:
                self.inside.remove(visitor)

    @property
    def pending(self) -> list[Visitor]:
        """Those who have not gone, in the order of their coming."""
        return [visitor for visitor, visit in self.visits.items() if not visit.done()]

    def keys(self, names: list[int]) -> str:
        by_name = {visitor.name: visitor.key for visitor in self.visits}
        return "".join(by_name[name] for name in names)

    @property
    def refused(self) -> list[int]:
        """The names of those who were refused."""
        done = {visitor.name: visit for visitor, visit in self.visits.items() if visit.done() and not visit.cancelled()}
        return [name for name, visit in done.items() if isinstance(visit.exception(), Overloaded)]

    async def disperse(self) -> None:
        """Release all."""
        while self.pending:
            for visitor in self.pending:
                visitor.go.set()
            await settle()


async def settle() -> None:
    """Let everything go on as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
def crowd() -> Crowd:
    """An empty limit with a few slots."""
    return Crowd(ConcurrencyLimit("page", PLACES, ROOM, FOR_EVER))


async def test_who_finds_neither_a_place_nor_room_is_refused_at_once(crowd: Crowd) -> None:
    for _ in range(PLACES + ROOM + 2):
        crowd.come()
    await settle()
    assert crowd.entered == [0, 1]
    assert crowd.refused == [5, 6]
    assert (crowd.limit.running, crowd.limit.waiting, crowd.limit.refused) == (PLACES, ROOM, 2)
    await crowd.disperse()
    assert (crowd.limit.running, crowd.limit.waiting) == (0, 0)


async def test_places_are_handed_on_in_the_order_of_coming(crowd: Crowd) -> None:
    for _ in range(PLACES + ROOM):
        crowd.come()
    await settle()
    for gone in range(ROOM):
        crowd.inside[0].go.set()
        # A request that arrives now does not overtake those that wait.
        crowd.come()
        await settle()
        assert crowd.waited == list(range(PLACES, PLACES + gone + 1))
    await crowd.disperse()


async def test_who_fails_gives_the_place_on(crowd: Crowd) -> None:
    first, *_ = [crowd.come() for _ in range(PLACES + 1)]
    await settle()
    first.fault = ValueError("scripted")
    first.go.set()
    await settle()
    assert isinstance(crowd.visits[first].exception(), ValueError)
    assert crowd.waited == [2]
    await crowd.disperse()


@pytest.mark.parametrize("is_handed_over", [True, False])
async def test_who_is_cancelled_around_the_hand_over_of_a_place_gives_it_on(crowd: Crowd, is_handed_over: bool) -> None:
    first, _, third, _ = [crowd.come() for _ in range(PLACES + 2)]
    await settle()
    first.go.set()
    if is_handed_over:
        # The task of the first ends, and the third has the place but does not know of it yet.
        await asyncio.sleep(0)
        assert crowd.visits[first].done() is True
        assert crowd.waited == []
    crowd.visits[third].cancel()
    await settle()
    assert crowd.waited == [3]
    await crowd.disperse()
    assert crowd.limit.running == 0


# The last three let nothing happen, a step happen, or all that can.
ACTIONS = st.sampled_from(["come", "come", "go", "cancel", "cancel waiting", "fail", "step", "settle"])


@settings(max_examples=300)
@given(st.lists(st.tuples(ACTIONS, st.integers(0, 20)), max_size=80), st.integers(1, 3), st.integers(0, 3))
def test_no_place_is_lost_or_given_twice_whatever_happens(
    actions: list[tuple[str, int]], places: int, room: int
) -> None:
    async def play() -> None:
        crowd = Crowd(ConcurrencyLimit("page", places, room, FOR_EVER))
        for action, number in actions:
            act(crowd, action, number)
            if action in {"step", "settle"}:
                await (settle() if action == "settle" else asyncio.sleep(0))
            assert len(crowd.inside) <= crowd.limit.running <= places
            assert crowd.limit.waiting <= room
        await settle()
        free = places - len(crowd.inside)
        assert crowd.limit.running == len(crowd.inside)
        assert crowd.limit.waiting == len(crowd.pending) - len(crowd.inside)
        assert not (free and crowd.limit.waiting)
        assert crowd.entered == sorted(crowd.entered)
        for key in "abc":
            waited = [name for name in crowd.waited if crowd.keys([name]) == key]
            assert waited == sorted(waited)
            assert crowd.limit.held_by(key) == sum(visitor.key == key for visitor in crowd.inside)
        await crowd.disperse()
        assert (crowd.limit.running, crowd.limit.waiting) == (0, 0)
        outcomes = await asyncio.gather(*crowd.visits.values(), return_exceptions=True)
        assert not [outcome for outcome in outcomes if isinstance(outcome, AssertionError)]

    asyncio.run(play())


def act(crowd: Crowd, action: str, number: int) -> None:
    """Do something to one of those who are there."""
    if action == "come":
        crowd.come("abc"[number % 3])
    waiting = [visitor for visitor in crowd.pending if visitor not in crowd.inside]
    choice = {"go": crowd.inside, "fail": crowd.inside, "cancel": crowd.pending, "cancel waiting": waiting}
    if among := choice.get(action):
        chosen = among[number % len(among)]
        chosen.fault = ValueError("scripted") if action == "fail" else None
        if action.startswith("cancel"):
            crowd.visits[chosen].cancel()
        else:
            chosen.go.set()


async def test_one_key_may_use_all_slots_until_another_one_comes(crowd: Crowd) -> None:
    for _ in range(PLACES + ROOM - 1):
        crowd.come()
    late = crowd.come("b")
    await settle()
    assert [visitor.key for visitor in crowd.inside] == ["a", "a"]
    crowd.inside[0].go.set()
    await settle()
    # It overtakes what the busy key has queued.
    assert late in crowd.inside
    assert sorted(visitor.key for visitor in crowd.inside) == ["a", "b"]
    await crowd.disperse()


async def test_keys_that_hold_the_same_are_served_alternately() -> None:
    crowd = Crowd(ConcurrencyLimit("page", 1, 100, FOR_EVER))
    for key in "xaaaabbbbcc":
        crowd.come(key)
    await settle()
    while crowd.pending:
        crowd.inside[0].go.set()
        await settle()
    assert crowd.keys(crowd.waited) == "abcabcabab"


async def test_a_full_queue_has_room_for_a_key_with_fewer_requests_in_it() -> None:
    crowd = Crowd(ConcurrencyLimit("page", 2, 4, FOR_EVER))
    for key in "aaaaaabbbb":
        crowd.come(key)
    await settle()
    # Requests of b took the places of the newest three of a; another one would be more than a has left.
    assert sorted(crowd.refused) == [3, 4, 5, 9]
    assert crowd.limit.refused == 4
    await crowd.disperse()
    assert crowd.limit.running == 0


async def test_a_key_that_others_leave_nothing_waits_however_slow_they_are(clock: Clock) -> None:
    crowd = Crowd(ConcurrencyLimit("page", 4, 100, max_wait_seconds=1.0))
    for _ in range(4):
        crowd.come()
    await settle()
    clock.now += 60.0
    for key in "abbb":
        crowd.come(key)
    await settle()
    # Half of the slots are the share of each of two keys.
    assert crowd.keys(crowd.refused) == "ab"
    crowd.inside[0].go.set()
    await settle()
    assert sorted(visitor.key for visitor in crowd.inside) == ["a", "a", "a", "b"]
    await crowd.disperse()


async def test_a_key_leaves_as_many_long_held_slots_as_it_takes() -> None:
    limit = ConcurrencyLimit("snapshot", 4, 0, FOR_EVER, is_held_long=True)
    held = [limit.slot("a").hold(), limit.slot("a").hold()]
    with pytest.raises(ShareExceeded):
        limit.slot("a").hold()
    held += [limit.slot("b").hold(), limit.slot("c").hold()]
    with pytest.raises(Overloaded):
        limit.slot("d").hold()
    held[0].release()
    held[0].release()
    assert (limit.running, limit.held_by("a"), limit.refused) == (3, 1, 1)


@pytest.mark.parametrize("slots", [1, 2, 3])
async def test_every_limit_has_a_long_held_slot_for_a_key_that_has_none(slots: int) -> None:
    limit = ConcurrencyLimit("snapshot", slots, 0, FOR_EVER, is_held_long=True)
    for at in range(slots):
        limit.slot(str(at)).hold()
    assert limit.running == slots


async def test_who_would_wait_for_too_long_by_the_pace_of_late_is_refused(clock: Clock) -> None:
    crowd = Crowd(ConcurrencyLimit("page", 1, 100, max_wait_seconds=1.0))
    crowd.come()
    # A slot is released every 0.4 s, and a request waits for each.
    for _ in range(50):
        crowd.come()
        await settle()
        clock.now += 0.4
        crowd.inside[0].go.set()
        await settle()
    assert crowd.refused == []
    for _ in range(4):
        crowd.come()
    await settle()
    assert (crowd.limit.waiting, len(crowd.refused)) == (2, 2)
    await crowd.disperse()


async def test_while_no_slot_is_released_no_more_requests_wait(clock: Clock) -> None:
    crowd = Crowd(ConcurrencyLimit("page", 1, 100, max_wait_seconds=1.0))
    crowd.come()
    await settle()
    for seconds, waiting, refused in ((0.9, 1, 0), (0.2, 1, 1), (60.0, 1, 2)):
        clock.now += seconds
        crowd.come()
        await settle()
        assert (crowd.limit.waiting, len(crowd.refused)) == (waiting, refused)
    await crowd.disperse()


async def test_a_stall_that_is_over_refuses_no_requests(clock: Clock) -> None:
    crowd = Crowd(ConcurrencyLimit("page", 1, 100, max_wait_seconds=1.0))
    for _ in range(20):
        crowd.come()
        await settle()
        clock.now += 3600
        await crowd.disperse()
    crowd.come()
    crowd.come()
    await settle()
    assert (crowd.limit.running, crowd.limit.waiting) == (1, 1)
    await crowd.disperse()
    assert crowd.refused == []


def test_many_refusals_are_one_line_in_the_log(internals: Internals, caplog: pytest.LogCaptureFixture) -> None:
    internals(admission_log_seconds=0.01)

    async def flood() -> None:
        crowd = Crowd(ConcurrencyLimit("page", PLACES, ROOM, FOR_EVER))
        for refused in (50, 100):
            caplog.clear()
            for _ in range(PLACES + ROOM + refused):
                crowd.come()
            await until(lambda: logged(caplog, "service", "Refused"))
            await crowd.disperse()
            (line,) = logged(caplog, "service", "Refused")
            assert line.startswith(f"Refused {refused} page requests")

    # On a loop of its own: limits of other tests must not log here.
    asyncio.run(flood())
