"""Tokens: sealed, so that they do not show what other companies change, and readable across rotated keys."""

import base64
import datetime as dt
import time

import msgspec
import orjson
import pytest

from cluster.control_index import TOKEN_KEYS_ID, Mark, TokenKeys, ensure_token_keys, renewed_keys
from service.errors import EngineUnavailable
from service.search.cached_value import CacheAges, CachedValue
from service.token import FeedPosition, TokenSealer, TokenVault
from tests.feed.feed_client import FeedClient, JsonObject, listing

# As tokens were before they were sealed: version 1, a view and the positions of listings.
_UNSEALED = base64.urlsafe_b64encode(msgspec.msgpack.encode([1, b"01234567", {4: [0, 7, 7]}])).decode().rstrip("=")
_DAY = 86_400


def _raw(token: str) -> bytes:
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


async def _tokens(feed: FeedClient) -> dict[str, str]:
    """Return a token of every kind that the key `a` receives."""
    head, *_ = await feed.snapshot("listings")
    digest = await feed.json("digest/listings")
    return {"changes": await feed.token(), "snapshot": head["token"], "digest": digest["token"]}


async def test_tokens_look_random_and_have_one_length_however_much_changes(feed: FeedClient) -> None:
    before = await _tokens(feed)
    await feed.update(*(listing(f"B{number}", "b") for number in range(300)))
    after = await _tokens(feed)
    for kind, token in after.items():
        assert len(token) == len(before[kind])
        # Beyond version and key no byte of a position is left: 306 is the sequence of all listings.
        assert len({*_raw(token)[5:]} - {0}) > 16
        assert msgspec.msgpack.encode(306) not in _raw(token)
        assert token != before[kind]
        assert token == (await _tokens(feed))[kind]


async def test_lines_show_a_time_and_not_how_much_others_change(feed: FeedClient) -> None:
    token = await feed.token()
    await feed.update(listing("L0", "a", 1, price=9))
    await feed.update(*(listing(f"B{number}", "b") for number in range(37)))
    await feed.update(listing("L2", "a", 1, price=9))
    changes, _ = await feed.changes(token)
    lines = [*changes, *(await feed.snapshot("listings"))[1:-1]]
    assert [change["id"] for change in changes] == ["L0", "L2"]
    assert all(line["sequence"] == _milliseconds(line) for line in lines)


def _milliseconds(line: JsonObject) -> int:
    return round(dt.datetime.fromisoformat(line["time"]).timestamp() * 1000)


async def test_unsealed_tokens_are_expired_and_altered_ones_invalid(feed: FeedClient) -> None:
    token = await feed.token()
    altered = token[:-8] + ("A" if token[-8] != "A" else "B") + token[-7:]
    unknown = base64.urlsafe_b64encode(b"\x02" + b"\0" * 96).decode()
    assert await feed.problem("changes", since=_UNSEALED) == (410, "token-expired")
    assert await feed.problem("changes", since=unknown.rstrip("=")) == (410, "token-expired")
    for text in (altered, token[:-1], "AgAA", "x"):
        assert await feed.problem("changes", since=text) == (400, "invalid-parameter"), text


async def test_tokens_outlive_the_rotation_of_their_key(feed: FeedClient) -> None:
    token, bench = await feed.token(), feed.bench
    index = bench.connection.control_index
    stored = msgspec.convert((await bench.client.get(index=index, id=TOKEN_KEYS_ID))["_source"], TokenKeys)
    renewed = renewed_keys(stored, time.time() + 91 * _DAY)
    assert renewed is not None
    await bench.client.index(index=index, id=TOKEN_KEYS_ID, document=msgspec.to_builtins(renewed), refresh=True)
    following = await feed.token()
    assert _raw(following)[1:5] != _raw(token)[1:5]
    await feed.update(listing("L0", "a", 1, price=9))
    assert await feed.summaries(token) == await feed.summaries(following) == [("L0", 9)]


async def test_without_token_keys_requests_name_the_command_that_makes_them(feed: FeedClient) -> None:
    bench = feed.bench
    await bench.client.delete(index=bench.connection.control_index, id=TOKEN_KEYS_ID, refresh=True)
    status, body = await feed.get("digest/listings")
    assert (status, "brokerage index" in orjson.loads(body)["detail"]) == (503, True)
    await ensure_token_keys(bench.client, bench.connection.control_index)
    assert (await feed.get("digest/listings"))[0] == 200


def _sealer() -> TokenSealer:
    keys = renewed_keys(TokenKeys(), 0.0)
    assert keys is not None
    return TokenSealer(keys)


async def test_no_token_expires_because_a_newer_key_cannot_be_read() -> None:
    known = [_sealer()]

    async def load() -> TokenSealer:
        if not known:
            raise EngineUnavailable("scripted")
        return known.pop()

    vault = TokenVault(CachedValue(load, CacheAges(fresh_seconds=60.0, stale_seconds=60.0)))
    assert await vault.open(await vault.seal(b"position"), "since") == b"position"
    # Another process has read a newer key already.
    with pytest.raises(EngineUnavailable):
        await vault.open(_sealer().seal(b"position"), "since")


@pytest.mark.parametrize(("days", "is_renewed"), [(0, False), (89, False), (91, True)])
def test_a_key_is_replaced_after_three_months(days: int, is_renewed: bool) -> None:
    keys = renewed_keys(TokenKeys(), 0.0)
    assert keys is not None
    assert (renewed_keys(keys, days * _DAY) is not None) is is_renewed


def test_five_keys_are_kept() -> None:
    keys = TokenKeys()
    for quarter in range(8):
        keys = renewed_keys(keys, quarter * 91 * _DAY) or keys
    assert [key.created // _DAY for key in keys.keys] == [7 * 91, 6 * 91, 5 * 91, 4 * 91, 3 * 91]


@pytest.mark.parametrize(
    ("position", "is_expired"),
    [
        (FeedPosition(2, 7, 0, "now"), False),
        (FeedPosition(2, 10, 0, "now"), False),
        (FeedPosition(2, 11, 0, "now"), True),  # of data that a restore took back
        (FeedPosition(2, 6, 0, "now"), True),  # a deletion may be missing
        (FeedPosition(2, 6, 7, "now"), False),  # reading began after that deletion
        (FeedPosition(2, 6, 6, "now"), True),
        (FeedPosition(1, 10, 0, "now"), True),
        (FeedPosition(2, 10, 0, "other"), True),
        (FeedPosition(2, 8, 0), False),
        (FeedPosition(2, 9, 0), True),  # without a name, read after the data got theirs
    ],
)
def test_a_position_expires_once_a_change_after_it_is_unknown(position: FeedPosition, is_expired: bool) -> None:
    mark = Mark(clock=1, sequence=10, epoch=2, generation="g", forgotten=7, epoch_id="now", named_at=8)
    assert position.is_expired(mark) is is_expired
