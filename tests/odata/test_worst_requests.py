"""The requests that cost most within all limits, of every entity set, from the socket to the end of the answer."""

import asyncio
import sys
from asyncio.events import Handle
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType, SimpleNamespace
from typing import Any

import orjson
import pytest
from yarl import URL

from mappings import LISTING
from service.background import in_turns
from service.reso.entity_events import EVENT_ENTITY_SET
from service.reso.sets.child_query import ChildPageSource
from service.reso.sets.child_selection import ChildRow
from service.reso.sets.child_sets import CHILD_SETS, Child, ChildKey
from service.reso.sets.declarations import ENTITY_SETS
from service.reso.sets.entity_set import EntityHeader
from tests.internals import Internals
from tests.odata.odata_client import ODataClient
from tests.odata.worst_requests import WorstRequest, worst_requests

# In one callback of the event loop. A link to the next page encodes 16,000 bytes, each by some calls.
_MAX_CALLS = 100_000
_EXPECTED = {200, 400, 410, 501}


@pytest.mark.parametrize("name", [EVENT_ENTITY_SET, *ENTITY_SETS])
async def test_the_worst_requests_leave_the_event_loop_to_others(odata_over_socket: ODataClient, name: str) -> None:
    keys = {each: await _keys(odata_over_socket, each) for each in ENTITY_SETS}
    of_homes = dict.fromkeys(("Media", "OpenHouse", "HistoryTransactional"), keys["Property"])
    of_parents = {**of_homes, "TeamMembers": keys["Member"]}
    known = {**keys, **of_parents, EVENT_ENTITY_SET: keys["Property"]}
    statuses: Counter[int] = Counter()
    for asked in worst_requests(known):
        if asked.entity_set == name:
            status, calls, answer = await _counted(odata_over_socket, asked)
            statuses[status] += 1
            assert status in _EXPECTED, (asked, answer)
            assert status != 400 or b"costs as much as" in answer, (asked, answer)
            assert calls <= _MAX_CALLS, (asked.shape, calls)
    assert statuses[200] > 3, statuses


async def _keys(odata: ODataClient, name: str) -> list[str]:
    key = ENTITY_SETS[name].key
    return [row[key] for row in (await odata.page(name, select=key, top=400))["value"]]


async def _counted(odata: ODataClient, asked: WorstRequest) -> tuple[int, int, bytes]:
    """Return the status, the most calls of functions in one callback of the event loop, and the answer."""
    with _calls_of_callbacks() as calls:
        url = URL(f"{odata.root}/{asked.path}", encoded=True)
        reply = await odata.request(url, headers={"Prefer": f"maxpagesize={asked.rows}"})
    return reply.status, max(calls), reply.raw[:300]


@contextmanager
def _calls_of_callbacks() -> Iterator[list[int]]:
    """Count the calls of Python's and of C functions in each callback of the running event loop."""
    run, counts = Handle._run, [0]

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        counts[-1] += event in {"call", "c_call"}

    def counted(handle: Handle) -> None:
        counts.append(0)
        sys.setprofile(note)
        try:
            run(handle)
        finally:
            sys.setprofile(None)

    Handle._run = counted  # type: ignore[assignment, method-assign]
    try:
        yield counts
    finally:
        Handle._run = run  # type: ignore[method-assign]


@pytest.mark.parametrize("name", CHILD_SETS)
async def test_children_are_encoded_in_turns(internals: Internals, name: str) -> None:
    internals(background_turn_seconds=0.0)
    child_set, turns = CHILD_SETS[name], count()
    parent: Any = SimpleNamespace(ListingID="1")
    children = [Child(ChildKey("p", str(at)), {}, at, parent, EntityHeader("p", 0)) for at in range(200)]
    call: Any = SimpleNamespace(sent=None)
    records: Any = None
    source = ChildPageSource(call, child_set, records, tuple(child_set.properties.values()))
    encoding = asyncio.create_task(source.encode_rows([ChildRow((), LISTING, child) for child in children]))
    while not encoding.done():
        next(turns)
        await asyncio.sleep(0)
    assert len(orjson.loads(b"[%b]" % b",".join(encoding.result()))) == len(children)
    assert next(turns) > 5


@pytest.mark.parametrize(("milliseconds", "order"), [(2, ["0", "other", "1", "2"]), (0.5, ["0", "1", "2", "other"])])
async def test_other_work_runs_after_2_ms(
    monkeypatch: pytest.MonkeyPatch, milliseconds: float, order: list[str]
) -> None:
    steps: list[str] = []
    clock = count()
    monkeypatch.setattr(
        "service.background.time", SimpleNamespace(thread_time=lambda: next(clock) * milliseconds / 1e3)
    )

    async def work() -> None:
        async for number in in_turns("012"):
            steps.append(number)  # noqa: PERF401 - the order of steps is what counts

    async def other() -> None:
        steps.append("other")

    await asyncio.gather(work(), other())
    assert steps == order
