"""`brokerage audit`: who was sent a record, in which state, who read its removal, and what is not known."""

import asyncio
import json
import time
from typing import Any

from click.testing import CliRunner
from elasticsearch import AsyncElasticsearch

from brokerage.command import main
from cluster.connection import ConnectionSettings
from service.audit.reads import GAP, SESSION
from service.audit.store import AuditStore
from service.keys.store import KeyStore
from tests.feed.feed_client import deleted_listing, listing
from tests.internals import Internals
from tests.service.audit.conftest import AuditedService, audited, bench

__all__ = ["audited", "bench"]

SINCE = "platform_company_id=a&updated_since=1"
HOUR = 3_600_000


async def command(
    audited: AuditedService | ConnectionSettings, *arguments: str, code: int = 0, **environment: str
) -> str:
    """Run `brokerage audit` against the same indices and return its output."""
    connection = audited.bench.connection if isinstance(audited, AuditedService) else audited
    given = {"ELASTICSEARCH_URL": connection.url[0], "BROKERAGE_INDEX_PREFIX": connection.prefix}
    ended = await asyncio.to_thread(CliRunner().invoke, main, ["audit", *arguments], env=given | environment)
    assert ended.exit_code == code, ended.output
    return ended.output


async def who(audited: AuditedService, identifier: str, *options: str, code: int = 0) -> dict[str, Any]:
    """Return the answer for an identifier, once all is written; holders by the names of their keys."""
    await audited.audit.flush()
    audited.audit._renewed_at = float("-inf")
    await audited.audit.flush()
    answer: dict[str, Any] = json.loads(await command(audited, "who", identifier, *options, "--json", code=code))
    return answer | {"holders": {holder["name"]: holder for holder in answer["holders"]}}


async def test_it_names_the_keys_that_were_sent_a_record_and_who_read_its_removal(audited: AuditedService) -> None:
    token = (await audited.json("changes?resources=listings", "a"))["next"]
    await audited.json("listings/L0", "all")
    found = await who(audited, "L0")
    sequence = await audited.sequence()
    assert found["records"][0] == {"resource": "listings", "id": "L0", "state": "live", "sequence": found_at(found)}
    assert {
        name: (holder["state"], holder["times_sent"], holder["is_current"]) for name, holder in found["holders"].items()
    } == {
        "a": ("live", 1, True),
        "all": ("live", 1, True),
    }
    assert found["missing"] == []
    assert len(found["recorded"]) == 1

    await audited.update(deleted_listing("L0", "a", 1))
    await audited.json(f"changes?since={token}", "a")
    found = await who(audited, "L0")
    assert found["records"][0]["state"] == "deleted"
    assert sequence < found["records"][0]["sequence"] == await audited.sequence()
    holders = found["holders"]
    assert (holders["a"]["state"], holders["all"]["state"]) == ("deleted", "live")
    assert holders["a"]["removal_read"] > holders["a"]["last_sent"]
    assert holders["all"]["removal_read"] is None
    assert not holders["all"]["is_current"]
    text = await command(audited, "who", "L0")
    assert "Sent to 2 keys; 1 of them have read since that it is gone." in text


def found_at(found: dict[str, Any]) -> int:
    """Return the sequence of the record, which its holders have at least."""
    sequence: int = found["records"][0]["sequence"]
    assert all(holder["sequence"] >= sequence for holder in found["holders"].values())
    return sequence


async def test_an_older_state_is_told_from_the_current_one(audited: AuditedService) -> None:
    await audited.json(f"listings?{SINCE}", "a")
    await audited.update(listing("L0", "a", 1, price=9))
    await audited.json(f"listings?{SINCE}", "all")
    found = await who(audited, "L0")
    assert {name: holder["is_current"] for name, holder in found["holders"].items()} == {"a": False, "all": True}


async def test_a_removal_is_also_read_by_events_and_by_asking_for_the_record(audited: AuditedService) -> None:
    for key in ("a", "all"):
        await audited.json("reso/EntityEvent", key)
        await audited.json("listings/L0", key)
    await audited.update(deleted_listing("L0", "a", 1))
    assert {holder["state"] for holder in (await who(audited, "L0"))["holders"].values()} == {"live"}
    await audited.json("reso/EntityEvent", "a")
    assert (await audited.ask("listings/L0", "all"))[0] == 404
    holders = (await who(audited, "L0"))["holders"]
    assert {name: holder["state"] for name, holder in holders.items()} == {"a": "event", "all": "absent"}


async def test_a_record_that_came_back_is_held_again(audited: AuditedService) -> None:
    token = (await audited.json("changes?resources=listings", "a"))["next"]
    await audited.update(deleted_listing("L0", "a", 1))
    token = (await audited.json(f"changes?since={token}", "a"))["next"]
    await audited.update(listing("L0", "a", 2))
    await audited.json(f"changes?since={token}", "a")
    holder = (await who(audited, "L0"))["holders"]["a"]
    assert (holder["state"], holder["is_current"], holder["times_sent"], holder["removal_read"]) == (
        "live",
        True,
        2,
        None,
    )


async def test_a_304_confirms_and_does_not_send(audited: AuditedService) -> None:
    tag = (await audited.ask(f"listings?{SINCE}", "a"))[2]["ETag"]
    before = (await who(audited, "L0"))["holders"]["a"]
    assert (await audited.ask(f"listings?{SINCE}", "a", **{"If-None-Match": tag}))[0] == 304
    after = (await who(audited, "L0"))["holders"]["a"]
    assert (before["last_confirmed"], after["times_sent"], after["last_sent"]) == (None, 1, before["last_sent"])
    assert after["last_confirmed"] > after["last_sent"]


async def test_those_who_were_never_sent_it_are_not_named(audited: AuditedService) -> None:
    await audited.json(f"listings?{SINCE}")
    assert (await audited.ask("listings/L1", "a"))[0] == 404
    assert (await who(audited, "L1"))["holders"] == {}
    assert (await who(audited, "L0", "--resource", "offices"))["holders"] == {}


async def test_a_revoked_key_is_named(audited: AuditedService) -> None:
    await audited.json("listings/L0", "a")
    await KeyStore(audited.bench.client, audited.bench.connection.keys_index).revoke(audited.key_id("a"))
    assert (await who(audited, "L0"))["holders"]["a"]["key_state"] == "revoked"


async def add(audited: AuditedService, **document: Any) -> None:
    """Add a document of another process."""
    index = audited.bench.connection.audit_index
    await audited.bench.client.index(index=index, document=document, refresh=True)


async def test_what_is_not_known_is_said_and_fails(audited: AuditedService) -> None:
    await audited.json("listings/L0", "a")
    now = (await who(audited, "L0"))["holders"]["a"]["last_sent"]
    assert now
    at = audited.audit._started
    gap = {"kind": GAP, "session": "s", "lost": 1234, "since": at - 9 * HOUR, "until": at - 8 * HOUR}
    killed = {"kind": SESSION, "session": "s", "since": at - 9 * HOUR, "until": at - 7 * HOUR, "has_ended": False}
    for document in (gap, killed):
        await add(audited, **document)
    pause, lost, broken = (await who(audited, "L0", code=1))["missing"]
    assert "no process recorded" in pause
    assert "1,234 records" in lost
    assert "A process ended, or cannot write" in broken
    assert "Incomplete: " in await command(audited, "who", "L0", code=1)


async def test_without_an_audit_it_says_how_to_begin(
    client: AsyncElasticsearch, connection: ConnectionSettings
) -> None:
    assert "brokerage audit create" in await command(connection, "who", "L0", code=1)
    assert "brokerage audit create" in await command(connection, "prune", code=1, BROKERAGE_AUDIT_DAYS="3")
    assert "Nothing was recorded." in (await command(connection, "create")) + await command(
        connection, "who", "L0", code=1
    )
    assert "already" in await command(connection, "create")
    assert await client.indices.exists(index=connection.audit_index)


async def test_what_is_too_old_is_deleted_with_its_index(
    client: AsyncElasticsearch, connection: ConnectionSettings, internals: Internals
) -> None:
    internals(audit_rollover={"max_docs": 1})
    store = AuditStore(client, connection.audit_index)
    await store.create()
    now = 1_000 * int(time.time())
    kept = []
    for days in (10, 2, 0):
        until = now - days * 24 * HOUR
        session = {"kind": SESSION, "session": str(days), "since": until, "until": until, "has_ended": True}
        await client.index(index=connection.audit_index, document=session, refresh=True)
        kept.append(await store.prune(3))
    assert kept == [[f"{connection.audit_index}-000001"], [], []]
    assert set((await store.coverage()).sessions) == {"2", "0"}
    assert "0 here" in await command(connection, "prune", code=2)
