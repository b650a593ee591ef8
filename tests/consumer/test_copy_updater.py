"""A copy follows a service that changes, forgets, is rolled back and loses things; all of it in one process."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.errors import CopyError, FeedUnavailable
from brokerage_feed.messages import ChangeBatch
from brokerage_feed.pull import PullPlan, pull_once
from brokerage_feed.pull_progress import VerificationOutcome
from brokerage_feed.record_hashes import bucket_of
from brokerage_feed.records import RESOURCE_NAMES as RESOURCES
from brokerage_feed.sqlite_copy import SqliteCopy
from tests.consumer.conftest import ServedStandIn, change_copy, copied, open_pull
from tests.consumer.stand_in_service import TIME
from tests.network.http import Request

MANY = 2_500  # more than a batch, and more than a page


async def pull_to_end(served: ServedStandIn, folder: Path) -> CopyUpdater:
    """Pull once and return what did it."""
    async with open_pull(served.url, folder) as (pull, _):
        await pull_once(pull, PullPlan(folder))
    return pull


def proofs(pull: CopyUpdater) -> dict[str, VerificationOutcome]:
    """Return what is known of each resource that is not plainly equal."""
    return {name: one.proof for name, one in pull.statuses.items() if one.proof is not VerificationOutcome.EQUAL}


async def test_a_copy_follows_what_changes_and_leaves(served: ServedStandIn, tmp_path: Path) -> None:
    stand_in = served.stand_in
    for number in range(MANY):
        stand_in.put("listings", f"x{number}")
    first = await pull_to_end(served, tmp_path)
    assert (proofs(first), copied(tmp_path)) == ({}, stand_in.contents())
    assert [first.statuses[name].snapshots for name in RESOURCES] == [1] * 6

    stand_in.drop("listings", "x1")
    stand_in.drop("agents", "a2", "deactivated")
    stand_in.drop("agents", "never-told")
    stand_in.put("agents", "a3", number="new")
    for number in range(1_200):
        stand_in.put("sold_listings", f"y{number}")
    stand_in.put("listings", "x1", number="back")
    asked = len(stand_in.asked)
    second = await pull_to_end(served, tmp_path)
    assert (proofs(second), copied(tmp_path)) == ({}, stand_in.contents())
    sent = {name: (one.snapshots, one.changed, one.removed, one.records) for name, one in second.statuses.items()}
    assert (sent["agents"], sent["listings"]) == ((0, 1, 2, 6), (0, 1, 0, MANY + 7))
    # Every resource asks with its own token once, then all of them with one.
    tokens = [query["since"] for path, query in stand_in.asked[asked:] if path == "/v1/changes"]
    assert len({token.count("~") for token in tokens}) <= 2
    third = len(stand_in.asked)
    await pull_to_end(served, tmp_path)
    assert [path.split("/")[2] for path, _ in stand_in.asked[third:]].count("changes") <= 8


async def test_a_void_token_costs_a_snapshot_of_that_resource_alone(served: ServedStandIn, tmp_path: Path) -> None:
    stand_in = served.stand_in
    await pull_to_end(served, tmp_path)
    stand_in.epochs["agents"] += 1
    del stand_in.held["agents"]["a1"]
    stand_in.put("agents", "a7")
    stand_in.put("listings", "l7")
    held = copied(tmp_path)["agents"]
    seen = []

    async def look(_: Request) -> None:
        seen.append(copied(tmp_path)["agents"])

    # One question for all, one for each up to the agents, and their snapshot.
    stand_in.faults = [None] * 4 + [look]
    pull = await pull_to_end(served, tmp_path)
    assert seen == [held]
    assert copied(tmp_path) == stand_in.contents()
    assert [one.snapshots for one in pull.statuses.values()] == [0, 0, 1, 0, 0, 0]
    assert (pull.statuses["agents"].removed, pull.statuses["listings"].changed) == (1, 1)


async def test_a_change_that_was_not_sent_is_found_named_and_repaired(served: ServedStandIn, tmp_path: Path) -> None:
    stand_in = served.stand_in
    for number in range(MANY):
        stand_in.put("listings", f"x{number}")
    await pull_to_end(served, tmp_path)
    stand_in.lost["listings"] = {"x7", "x8", "x9999"}
    stand_in.put("listings", "x7", number="changed")
    stand_in.drop("listings", "x8")
    stand_in.put("listings", "x9999")
    pull = await pull_to_end(served, tmp_path)
    assert proofs(pull) == {"listings": VerificationOutcome.REPAIRED}
    assert sorted(pull.statuses["listings"].different) == ["x7", "x8", "x9999"]
    assert copied(tmp_path) == stand_in.contents()
    # The drill asks for what it needs: the whole, the wide buckets at fault, their narrow ones twice.
    levels = [query.get("prefixes", "").count(",") for path, query in stand_in.asked if path == "/v1/digest/listings"]
    assert max(levels) <= 2


@pytest.mark.parametrize(
    ("statement", "sent"),
    [
        ("DELETE FROM listings_records WHERE id = 'l3'", "l3"),
        ("UPDATE listings_records SET content = '0000000000000000' WHERE id = 'l4'", "l4"),
        ("UPDATE listings_records SET record = replace(record, '5', '6') WHERE id = 'l5'", "l5"),
        (
            "INSERT INTO listings_records SELECT 'l9', company, content, sequence, time, record, checksum, round, NULL"
            " FROM listings_records",
            "l9",
        ),
    ],
)
async def test_a_copy_that_was_altered_is_found_and_repaired(
    served: ServedStandIn, tmp_path: Path, statement: str, sent: str
) -> None:
    await pull_to_end(served, tmp_path)
    assert change_copy(tmp_path, statement + (" LIMIT 1" if statement.startswith("INSERT") else "")) == 1
    pull = await pull_to_end(served, tmp_path)
    assert (proofs(pull), pull.statuses["listings"].different) == ({"listings": VerificationOutcome.REPAIRED}, [sent])
    assert copied(tmp_path) == served.stand_in.contents()
    assert proofs(await pull_to_end(served, tmp_path)) == {}


async def test_however_many_records_are_lost_each_is_found(served: ServedStandIn, tmp_path: Path) -> None:
    """More buckets differ than one request names."""
    for number in range(MANY):
        served.stand_in.put("listings", f"x{number}")
    await pull_to_end(served, tmp_path)
    assert change_copy(tmp_path, "DELETE FROM listings_records WHERE id LIKE 'x1__'") == 100
    pull = await pull_to_end(served, tmp_path)
    assert sorted(pull.statuses["listings"].different) == [f"x{number}" for number in range(100, 200)]
    assert copied(tmp_path) == served.stand_in.contents()


async def test_an_interrupted_repair_resumes(served: ServedStandIn, tmp_path: Path, waits: list[float]) -> None:
    for number in range(MANY):
        served.stand_in.put("listings", f"x{number}")
    await pull_to_end(served, tmp_path)
    assert change_copy(tmp_path, "DELETE FROM listings_records WHERE id = 'x999'") == 1
    served.stand_in.cuts = [1_500] + [0] * 8
    with pytest.raises(FeedUnavailable):
        await pull_to_end(served, tmp_path)
    pull = await pull_to_end(served, tmp_path)
    assert (proofs(pull), pull.statuses["listings"].snapshots) == ({}, 1)
    assert copied(tmp_path) == served.stand_in.contents()
    assert waits


def test_the_last_change_of_a_record_in_a_page_wins(tmp_path: Path) -> None:
    stay: dict[str, Any] = {"resource": "listings", "company": "acme", "time": TIME, "content": "0" * 16, "record": {}}
    leave: dict[str, Any] = {"resource": "listings", "company": "other", "time": TIME, "reason": "out_of_scope"}
    sent = [stay | {"id": "gone"}, leave | {"id": "back"}, leave | {"id": "gone"}, stay | {"id": "back"}]
    changes = [change | {"sequence": number} for number, change in enumerate(sent)]
    page = msgspec.json.decode(msgspec.json.encode({"changes": changes, "next": "t", "at_end": True}), type=ChangeBatch)
    with SqliteCopy(tmp_path, RESOURCES, "") as copy:
        copy.apply_changes(page, ["listings"])
        assert [(row.id, row.sequence) for row in copy.rows("listings")] == [("back", 3)]
        assert copy.checkpoint("listings").token == "t"


async def test_a_change_during_the_comparison_is_not_a_difference(served: ServedStandIn, tmp_path: Path) -> None:
    stand_in = served.stand_in
    await pull_to_end(served, tmp_path)

    async def change(_: Request) -> None:
        stand_in.put("companies", "c1", number=stand_in.sequences["companies"])

    # Catching up takes one question and comparing another; from then on something changes before each.
    stand_in.faults = [None, *[change] * 12]
    pull = await pull_to_end(served, tmp_path)
    assert stand_in.faults == []
    assert proofs(pull) == {}
    assert copied(tmp_path) == stand_in.contents()


async def test_a_bucket_that_never_settles_is_reported_and_not_repaired(served: ServedStandIn, tmp_path: Path) -> None:
    stand_in = served.stand_in
    await pull_to_end(served, tmp_path)
    stand_in.lost["teams"] = {"t1"}
    stand_in.put("teams", "t1", number="ahead of its mark")
    stand_in.unsettled = 1_000
    pull = await pull_to_end(served, tmp_path)
    assert proofs(pull) == {"teams": VerificationOutcome.UNSETTLED}
    assert pull.statuses["teams"].snapshots == 0
    # With it published after some looks all is well.
    stand_in.unsettled = 3

    async def publish(_: Request) -> None:
        stand_in.lost.clear()
        stand_in.put("teams", "t1", number="published")

    stand_in.faults = [None] * 14 + [publish]
    assert proofs(await pull_to_end(served, tmp_path)) == {}
    assert stand_in.faults == []


async def test_a_change_that_is_sent_later_than_its_digest_is_not_a_difference(
    served: ServedStandIn, tmp_path: Path
) -> None:
    stand_in = served.stand_in
    await pull_to_end(served, tmp_path)
    stand_in.lost["teams"] = {"t1"}
    stand_in.put("teams", "t1", number="known to one process")

    def publish(_: int) -> None:
        looked = any(len(query.get("prefixes", "").split(",")[0]) == 4 for _, query in stand_in.asked[:-2])
        if looked and stand_in.lost:
            stand_in.lost.clear()
            stand_in.put("teams", "t1", number="known to all")

    stand_in.on_request = publish
    assert proofs(await pull_to_end(served, tmp_path)) == {}
    assert not stand_in.lost


async def test_a_copy_is_one_of_one_thing(served: ServedStandIn, tmp_path: Path) -> None:
    async with open_pull(served.url, tmp_path, resources=("agents",), platform_company_id="acme") as (pull, _):
        await pull_once(pull, PullPlan(tmp_path))
    with pytest.raises(CopyError, match=r"is a copy of .*acme.*, not of {}: use another folder"):
        SqliteCopy(tmp_path, ("agents",), "{}")
    # More may be requested, less not.
    async with open_pull(served.url, tmp_path, platform_company_id="acme") as (pull, _):
        await pull_once(pull, PullPlan(tmp_path))
    assert [one.snapshots for one in pull.statuses.values()] == [1, 1, 0, 1, 1, 1]
    assert copied(tmp_path) == served.stand_in.contents()
    with pytest.raises(CopyError, match=r"also has companies, listings.*: add them"):
        SqliteCopy(tmp_path, ("agents",), str({"platform_company_id": "acme"}))
    (tmp_path / "copy.sqlite3").write_bytes(b"no database at all" * 1000)
    with pytest.raises(CopyError, match=r"copy\.sqlite3 cannot be used: file is not a database"):
        SqliteCopy(tmp_path, ("agents",), "{}")


def test_the_bucket_of_an_identifier_is_that_of_the_service() -> None:
    # The first two bytes of the SHA-256 of `abc`, as FIPS 180-2 has it.
    assert bucket_of("abc") == 0xBA78
