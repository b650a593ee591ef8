"""A service that is broken or hostile: a clear error, never a traceback or a hang, and the copy stays as it was."""

import gzip
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from brokerage_feed import Feed, FeedError
from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.errors import NoProgress, ResponseTooLarge
from brokerage_feed.feed import MAX_EMPTY_PAGES
from brokerage_feed.pull import PullPlan, pull_once
from brokerage_feed.records import RESOURCE_NAMES as RESOURCES
from brokerage_feed.sqlite_copy import SqliteCopy
from tests.consumer.conftest import ServedStandIn, copied, run
from tests.consumer.stand_in_service import KEY, TIME
from tests.internals import Internals
from tests.network.http import Reply, Request, http
from tests.network.server import serving

# In place of each member: wrong types, sizes, numbers and texts. Each is JSON.
WRONG = (
    *(
        b"null",
        b"true",
        b"-1",
        b"1.5",
        b"1e400",
        b"9" * 400,
        b'""',
        b'"\\ud800"',
        b'"\xff"',
        b'"\\u0000"',
        b"[]",
        b"{}",
    ),
    *(b"NaN", b'"x; DROP TABLE listings"', b'"' + b"x" * 5000 + b'"', b"[" * 5000, b'{"a":' * 5000, b'"9999999-01-01"'),
)
CHANGE = {
    "resource": "listings",
    "company": "acme",
    "id": "l1",
    "sequence": 9,
    "time": TIME,
    "content": "0123456789abcdef",
    "record": {"a": 1},
}
MESSAGES: dict[str, tuple[dict[str, Any], ...]] = {
    "changes": ({"changes": [CHANGE], "next": "t", "at_end": True},),
    "snapshot": (
        {"resource": "listings", "token": "t", "count": 1},
        {name: value for name, value in CHANGE.items() if name != "resource"},
        {"complete": True, "count": 1, "digest": "0" * 16},
    ),
    "digest": (
        {
            "count": 9,
            "digest": "0" * 16,
            "unsettled": 0,
            "buckets": [
                {
                    "prefix": "00",
                    "count": 1,
                    "digest": "0" * 16,
                    "unsettled": 0,
                    "records": [{"id": "l1", "content": "0" * 16}],
                }
            ],
        },
    ),
}


def _mutated(message: Any) -> Iterator[bytes]:
    """Yield a message with each member in turn missing or wrong."""
    for path in _paths(message):
        for value in (None, *WRONG):
            yield orjson.dumps(_with(message, path, value)).replace(b'"\x7f"', b"").replace(b'"@"', value or b"")


def _paths(message: Any, *above: str | int) -> Iterator[tuple[str | int, ...]]:
    members = message.items() if isinstance(message, dict) else enumerate(message) if isinstance(message, list) else ()
    for name, value in members:
        yield (*above, name)
        yield from _paths(value, *above, name)


def _with(message: Any, path: tuple[str | int, ...], value: bytes | None) -> Any:
    """Return a copy with a placeholder for one member, or without the member if there is no value."""
    first, *rest = path
    copy = message.copy()
    if rest:
        copy[first] = _with(message[first], tuple(rest), value)
    elif value is None:
        del copy[first]
    else:
        copy[first] = "@"
    return copy


def _bodies(operation: str) -> Iterator[bytes]:
    lines = MESSAGES[operation]
    for number, line in enumerate(lines):
        for wrong in _mutated(line):
            whole = [orjson.dumps(other) for other in lines]
            yield b"\n".join([*whole[:number], wrong, *whole[number + 1 :]]) + b"\n"


async def _pull(url: str, folder: Path) -> None:
    with SqliteCopy(folder, RESOURCES, "") as copy:
        async with Feed(url, KEY, attempts=1) as feed:
            pull = CopyUpdater(feed, copy, RESOURCES, lambda _: None)
            feed.on_wait = pull.report_waiting
            await pull_once(pull, PullPlan(folder, "parquet"))


@pytest.mark.parametrize("operation", MESSAGES)
async def test_wrong_members_end_in_a_sentence(served: ServedStandIn, tmp_path: Path, operation: str) -> None:
    await _pull(served.url, tmp_path)
    before = copied(tmp_path)
    bodies, refusals = [*_bodies(operation)], 0
    for body in bodies:
        handler = _instead(served.stand_in.reply, operation, body)
        async with serving(http(handler)) as server:
            with SqliteCopy(tmp_path, RESOURCES, "") as copy:
                async with Feed(server.url, KEY, attempts=1) as feed:
                    try:
                        await _ask(feed, copy, operation)
                    except FeedError:
                        refusals += 1
    assert refusals > 0.8 * len(bodies)
    after = copied(tmp_path)
    assert all(before[name].keys() <= after[name].keys() for name in before)
    assert not [name for name in after["listings"] if not name.isprintable()]


async def _ask(feed: Feed, copy: SqliteCopy, operation: str) -> None:
    if operation == "digest":
        await feed.digest("listings")
    elif operation == "changes":
        async for page in feed.changes(["t0"], resources=["listings"]):
            copy.apply_changes(page, ["listings"])
    else:
        pull = CopyUpdater(feed, copy, RESOURCES, lambda _: None)
        await pull.take_snapshot("listings")


def _instead(
    honest: Callable[[Request], Awaitable[Reply]], operation: str, body: bytes
) -> Callable[[Request], Awaitable[Reply]]:
    async def reply(request: Request) -> Reply:
        return Reply(body=body) if f"/{operation}" in request.path else await honest(request)

    return reply


@pytest.mark.parametrize("tokens", [("a",), ("a", "b")])
async def test_a_stream_that_returns_to_its_start_ends(tokens: tuple[str, ...]) -> None:
    asked: list[str] = []

    async def reply(request: Request) -> Reply:
        asked.append(request.query.get("since", ""))
        token = tokens[len(asked) % len(tokens)]
        return Reply(body=orjson.dumps({"changes": [], "next": token, "at_end": False}))

    async with serving(http(reply)) as server, Feed(server.url, KEY) as feed:
        with pytest.raises(NoProgress, match="the same position twice"):
            [page async for page in feed.changes(["a"])]
    assert len(asked) <= len(tokens) + 1


async def test_a_stream_without_changes_or_an_end_ends() -> None:
    asked: list[str] = []

    async def reply(request: Request) -> Reply:
        asked.append(request.path)
        return Reply(body=orjson.dumps({"changes": [], "next": f"t{len(asked)}", "at_end": False}))

    async with serving(http(reply)) as server, Feed(server.url, KEY) as feed:
        with pytest.raises(NoProgress, match="pages in a row without a change"):
            [page async for page in feed.changes()]
    assert len(asked) == MAX_EMPTY_PAGES + 1


# The client decompresses zstd where a module for it is installed, as with the server.
@pytest.mark.parametrize(("coding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)])
async def test_bodies_lines_and_errors_are_bounded(
    coding: str, pack: Callable[[bytes], bytes], internals: Internals
) -> None:
    internals(largest_feed_body_bytes=2**20, largest_feed_line_bytes=2**20)
    bomb = pack(bytes(2**26))

    async def reply(request: Request) -> Reply:
        status = 404 if "agents" in request.path else 200
        return Reply(status=status, body=bomb, headers={"Content-Encoding": coding})

    async with serving(http(reply)) as server, Feed(server.url, KEY) as feed:
        with pytest.raises(ResponseTooLarge, match="changes sent a response of more than 1 MiB"):
            [page async for page in feed.changes()]
        with pytest.raises(ResponseTooLarge, match="snapshot/listings sent a line of more than 1 MiB"):
            await feed.snapshot("listings")
        with pytest.raises(FeedError, match=r"snapshot/agents returned 404. Is this the address of the service\?"):
            await feed.snapshot("agents")


async def test_a_wait_that_never_ends_is_cut(served: ServedStandIn, waits: list[float]) -> None:
    async def later(_: Request) -> Reply:
        return Reply(status=503, headers={"Retry-After": "9" * 400})

    served.stand_in.faults = [later]
    async with Feed(served.url, KEY) as feed:
        await feed.digest("listings")
    assert all(wait <= 3601 for wait in waits)
    assert len(waits) == 1


async def test_texts_of_the_service_reach_the_terminal_visibly(served: ServedStandIn, tmp_path: Path) -> None:
    async def refuse(_: Request) -> Reply:
        return Reply(status=403, body=orjson.dumps({"code": "x\x1b]0;title\x07", "detail": "[/red]\x9b31m\u202e"}))

    # The list of files, and then the snapshot.
    served.stand_in.faults = [refuse, refuse]
    code, out, err = await run(tmp_path / "copy", "--url", served.url)
    assert (code, out) == (1, "")
    assert err == "/v1/snapshot/companies returned 403 x\\u001b]0;title\\u0007: [/red]\\u009b31m\\u202e\n"
