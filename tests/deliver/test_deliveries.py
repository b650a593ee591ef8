"""What is delivered: the bytes that the API would send, once and in order, to those who may still read them."""

import asyncio
import datetime as dt
import time

import orjson
import pytest
from aiohttp import web

from mappings import LISTING
from service.deliver import courier
from service.keys.store import KeyStore
from tests.brokerage.conftest import invoke
from tests.deliver.conftest import Pushed
from tests.deliver.receiver import accept, receiving
from tests.feed.feed_client import deleted_listing, listing
from tests.internals import Internals


@pytest.mark.parametrize("key", ["a", "ab", "poor"])
async def test_a_delivery_has_the_bytes_that_the_key_would_be_sent(pushed: Pushed, key: str) -> None:
    async with receiving() as receiver, pushed.delivering():
        await pushed.subscribe(receiver.url, key, start="")
        await receiver.until(lambda: len(receiver.accepted) == 1)
        _, page = await pushed.feed.get("changes", key)
        sent = receiver.accepted[0]
        assert sent.body.endswith(b',"data":' + page + b"}")
        assert sent.content["since"] is None
        token = sent.content["data"]["next"]
        await pushed.feed.bench.update({LISTING: [listing("L0", "a", 5, price=77)]})
        await receiver.until(lambda: len(receiver.accepted) == 2)
        _, page = await pushed.feed.get("changes", key, since=token)
        assert receiver.accepted[1].body.endswith(b',"data":' + page + b"}")
        assert receiver.accepted[1].content["since"] == token


async def test_a_subscription_begins_with_what_changes_after_it_was_created(pushed: Pushed) -> None:
    async with receiving() as receiver:
        subscription = await pushed.subscribe(receiver.url)
        await pushed.feed.bench.update({LISTING: [listing("L0", "a", 5, price=77), listing("L1", "b", 5, price=78)]})
        async with pushed.delivering():
            await receiver.until(lambda: len(receiver.accepted) == 1)
            await pushed.feed.bench.update({LISTING: [deleted_listing("L2", "a", 6)]})
            await receiver.until(lambda: len(receiver.accepted) == 2)
            await pushed.until(subscription, number=2, waiting=0)
    assert [(entry["id"], entry.get("reason")) for entry in receiver.entries] == [("L0", None), ("L2", "deleted")]
    assert [delivery.content["number"] for delivery in receiver.accepted] == [1, 2]


async def test_a_subscription_to_prices_is_sent_nothing_else(pushed: Pushed) -> None:
    async with receiving() as receiver, pushed.delivering():
        await pushed.subscribe(receiver.url, changed=("price",))
        await pushed.feed.bench.update({LISTING: [listing("L0", "a", 5, price=0, status="Pending")]})
        await pushed.feed.bench.update({LISTING: [listing("L2", "a", 6, price=79)]})
        await receiver.until(lambda: len(receiver.accepted) == 1)
        await pushed.feed.bench.update({LISTING: [listing("L2", "a", 7, price=79, status="Pending")]})
        await pushed.feed.bench.update({LISTING: [deleted_listing("L0", "a", 8)]})
        await receiver.until(lambda: len(receiver.accepted) == 2)
    told = [(entry["id"], entry.get("changed"), entry.get("reason")) for entry in receiver.entries]
    assert told == [("L2", ["price"], None), ("L0", None, "deleted")]
    assert receiver.entries[0]["previous"] == {"ListPrice": 2}


async def test_what_fails_is_sent_again_with_the_same_id(pushed: Pushed, internals: Internals) -> None:
    internals(delivery_longest_pause_seconds=0.01)

    async def fail_twice(count: int) -> int:
        return 503 if count < 3 else 200

    async with receiving(fail_twice) as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="")
        await receiver.until(lambda: bool(receiver.accepted))
        progress = await pushed.until(subscription, number=1, failures=0)
    assert len({delivery.headers["webhook-id"] for delivery in receiver.arrived}) == 1
    assert (progress.answer, progress.waiting) == ("200", 0)


async def test_a_receiver_is_left_alone_as_long_as_it_asks(pushed: Pushed, internals: Internals) -> None:
    internals(delivery_longest_pause_seconds=0.01)
    times = list[float]()

    async def refuse_once(count: int) -> web.Response | int:
        times.append(time.monotonic())
        return web.Response(status=429, headers={"Retry-After": "2"}) if count == 1 else 200

    async with receiving(refuse_once) as receiver, pushed.delivering():
        await pushed.subscribe(receiver.url, start="")
        await receiver.until(lambda: bool(receiver.accepted))
    assert times[1] - times[0] >= 2.0


async def test_the_circuit_opens(pushed: Pushed, internals: Internals) -> None:
    internals(delivery_longest_pause_seconds=0.01)

    async def fail(_: int) -> int:
        return 500

    async with receiving(fail) as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="")
        progress = await pushed.until(subscription, failures=8)
        assert progress.summary().state == "open"
        assert (progress.summary().behind or 0) > 0
        receiver.behaviour = accept
        await pushed.store.edit(subscription.name, is_paused=True)
        await pushed.store.edit(subscription.name, is_paused=False)
        await pushed.until(subscription, failures=0, number=1)
    assert len(receiver.arrived) == 9


async def test_resuming_attempts_at_once(pushed: Pushed) -> None:
    async with receiving() as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="", is_paused=True)
        await asyncio.sleep(2.0)
        assert receiver.arrived == []
        await pushed.store.edit(subscription.name, is_paused=False)
        await receiver.until(lambda: bool(receiver.accepted))


async def test_a_test_that_is_accepted_has_what_waits_sent_at_once(
    pushed: Pushed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "pause_seconds", lambda _: 3600.0)

    async def fail(_: int) -> int:
        return 500

    connection = pushed.feed.bench.connection
    environment = {
        "ELASTICSEARCH_URL": ",".join(connection.url),
        "BROKERAGE_INDEX_PREFIX": connection.prefix,
        "BROKERAGE_DELIVER_ALLOW_PRIVATE": "true",
    }
    async with receiving(fail) as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="")
        await pushed.until(subscription, failures=1)
        for behaviour, code in ((fail, 1), (accept, 0)):
            receiver.behaviour = behaviour
            ended = await asyncio.to_thread(invoke, "subscriptions", "test", subscription.name, environment=environment)
            assert ended.returncode == code, ended.stderr
        await pushed.until(subscription, failures=0, number=1)
    kinds = [delivery.content["type"] for delivery in receiver.arrived]
    assert kinds == ["changes", "test", "test", "changes"]


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_no_redirect_is_followed(pushed: Pushed, status: int) -> None:
    async with receiving() as other:

        async def redirect(_: int) -> web.Response:
            return web.Response(status=status, headers={"Location": other.url})

        async with receiving(redirect) as receiver, pushed.delivering():
            subscription = await pushed.subscribe(receiver.url, start="")
            await pushed.until(subscription, answer=str(status), number=0)
    assert other.arrived == []


async def test_a_replay_sends_everything_again_with_higher_numbers(pushed: Pushed) -> None:
    async with receiving() as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="")
        await receiver.until(lambda: len(receiver.accepted) == 1)
        await pushed.store.edit(subscription.name, start="", positions={}, starts=2)
        await receiver.until(lambda: len(receiver.accepted) == 2)
        await pushed.until(subscription, number=2)
    first, second = receiver.accepted
    assert first.content["data"] == second.content["data"]
    assert first.headers["webhook-id"] != second.headers["webhook-id"]


async def test_a_subscription_whose_token_has_ended_gets_everything(pushed: Pushed) -> None:
    async with receiving() as receiver, pushed.delivering():
        _, other = await pushed.feed.changes(None, "b")  # the token of another scope
        await pushed.subscribe(receiver.url, start=other)
        await receiver.until(lambda: len(receiver.accepted) == 1)
    everything, _ = await pushed.feed.changes(None)
    assert receiver.accepted[0].content["since"] is None
    assert receiver.entries == everything


async def test_a_revoked_key_is_sent_nothing_more(pushed: Pushed) -> None:
    """Also what a receiver was about to be sent: the delivery that hangs is cut."""
    hanging = asyncio.Event()

    async def hang(_: int) -> int:
        await hanging.wait()
        return 200

    async with receiving(hang) as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="")
        await receiver.until(lambda: len(receiver.arrived) == 1)
        await KeyStore(pushed.feed.bench.client, pushed.feed.bench.connection.keys_index).revoke(subscription.key_id)
        progress = await pushed.until(subscription, is_stopped=True, failures=0)
        hanging.set()
        await pushed.feed.bench.update({LISTING: [listing("L0", "a", 5, price=77)]})
        await asyncio.sleep(2.0)
    assert progress.number == 0
    assert len(receiver.arrived) == 1
    assert progress.summary().behind is None


async def test_a_key_that_was_rotated_is_followed(pushed: Pushed) -> None:
    """Its successor has the same grant; but a key that was revoked is not replaced by it."""
    keys = KeyStore(pushed.feed.bench.client, pushed.feed.bench.connection.keys_index)
    key_id = pushed.feed.keys["a"][3:13]
    async with receiving() as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="")
        await receiver.until(lambda: len(receiver.accepted) == 1)
        await keys.rotate(key_id, dt.timedelta())
        await asyncio.sleep(1.0)
        await pushed.feed.bench.update({LISTING: [listing("L0", "a", 5, price=77)]})
        await receiver.until(lambda: len(receiver.accepted) == 2)
        await keys.revoke(key_id)
        await pushed.until(subscription, is_stopped=True)


async def test_deletion_of_a_subscription_ends_it(pushed: Pushed) -> None:
    async with receiving() as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="")
        await receiver.until(lambda: len(receiver.accepted) == 1)
        await pushed.store.delete(subscription.name)
        await asyncio.sleep(2.0)
        await pushed.feed.bench.update({LISTING: [listing("L0", "a", 5, price=77)]})
        await asyncio.sleep(2.0)
        assert await pushed.store.progress() == {}
    assert len(receiver.arrived) == 1


async def test_events_are_those_of_the_reso_web_api(pushed: Pushed) -> None:
    """RCP-28: the values that /v1/reso/EntityEvent has for the key, after the number that was sent last."""
    async with receiving() as receiver, pushed.delivering():
        subscription = await pushed.subscribe(receiver.url, start="", body="events")
        await receiver.until(lambda: bool(receiver.accepted))
        await pushed.feed.bench.update({LISTING: [listing("L0", "a", 5, price=77)]})
        await receiver.until(lambda: len(receiver.accepted) == 2)
        progress = await pushed.until(subscription, number=2)
    names = "EntityEventSequence,ResourceName,ResourceRecordKey"
    _, page = await pushed.feed.get("reso/EntityEvent", "a", **{"$select": names})
    events = [event for delivery in receiver.accepted for event in delivery.content["value"]]
    known = {event["EntityEventSequence"]: event for event in orjson.loads(page)["value"]}
    assert events[-1]["ResourceRecordKey"] == "L0"
    assert progress.since == str(events[-1]["EntityEventSequence"])
    assert [known.get(event["EntityEventSequence"], event) for event in events] == events
    assert receiver.accepted[0].content["@reso.context"] == "urn:reso:metadata:2.0:resource:entityevent"
