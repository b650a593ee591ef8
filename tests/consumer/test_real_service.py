"""The command against the real service over a real Elasticsearch, filled by the real indexer."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestServer

from indexer import rollback
from mappings import AGENT, COMPANY, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM, Resource
from mappings.visibility import DisplayLicence
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.consumer.conftest import change_copy, copied, run
from tests.consumer.test_pull_command import summary as summarized
from tests.indexer.conftest import Bench, bench
from tests.records import COMPANY_KEY, deletion, envelope, identifier_of

__all__ = ["bench"]

OTHER = "other"
LATER, LATEST = "2026-02-03T04:05:06.789Z", "2026-03-03T04:05:06.789Z"
LISTINGS = 1_300  # more than a page of the service, and more than a batch of the copy


@dataclass
class RealService:
    """The service, a key that reads everything, and what is behind it."""

    bench: Bench
    url: str
    key: str

    async def held(self, *companies: str) -> dict[str, dict[str, str]]:
        """Return the content hashes of the live records of some companies, of all if none is given."""
        found: dict[str, dict[str, str]] = {}
        for resource in RESOURCES:
            await self.bench.client.indices.refresh(index=self.bench.connection.alias(resource))
            documents = (await self.bench.served(resource)).values()
            found[resource.alias] = {
                document["id"]: f"{document['content'] % 2**64:016x}"
                for document in documents
                if not document["deleted"]
                and "deactivated" not in document
                and (not companies or document["company"] in companies)
            }
        return found

    async def pull(self, folder: Path, *options: str) -> tuple[int, dict[str, Any]]:
        """Pull once; return the exit code and what came of each resource."""
        code, out, err = await run(folder, "--url", self.url, *options, key=self.key)
        assert err == ""
        return code, summarized(out)


@pytest.fixture
async def world(bench: Bench) -> AsyncIterator[RealService]:
    """Two companies with some of everything, and two generations of the listings."""
    lines = sources()
    await bench.build(lines)
    await bench.build({COMPANY: lines[COMPANY], LISTING: lines[LISTING]})
    key = await KeyStore(bench.client, bench.connection.keys_index).create(
        KeyGrant("all", all_companies=True, rate=None)
    )
    async with TestServer(create_app(ServiceSettings(), bench.connection)) as server:
        yield RealService(bench, str(server.make_url("")), key.reveal())


def sources() -> dict[Resource, list[dict[str, Any]]]:
    """Return the source lines of each resource, half of the listings of each company."""
    lines = {COMPANY: [envelope(COMPANY), envelope(COMPANY, {"platform_company_id": OTHER, "numeric_id": "4200"})]}
    for resource in (OFFICE, AGENT, TEAM, SOLD_LISTING):
        lines[resource] = [one(resource, f"{resource.alias}-{number}") for number in range(4)]
    lines[LISTING] = [one(LISTING, f"l{n}", company=(COMPANY_KEY, OTHER)[n % 2]) for n in range(LISTINGS)]
    return lines


def one(resource: Resource, identifier: str, at: str | None = None, company: str = COMPANY_KEY, **changes: Any) -> Any:
    given = {"updated_at": at} if at else {}
    return envelope(
        resource,
        {resource.identifier: identifier_of(resource, identifier), **changes},
        platform_company_id=company,
        **given,
    )


def contents(folder: Path) -> dict[str, dict[str, str]]:
    return {name: {key: content for key, (content, _) in held.items()} for name, held in copied(folder).items()}


async def test_copies_follow_a_real_service_through_all_that_happens_to_it(world: RealService, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    narrow = ("--company", COMPANY_KEY, "--market-status", "on-market")
    for folder, options in (whole, ()), (part, narrow):
        code, reported = await world.pull(folder, *options)
        assert (code, {status["proof"] for status in reported.values()}) == (0, {"equal"})
    assert contents(whole) == await world.held()
    assert contents(part) == await world.held(COMPANY_KEY)

    summary = await world.bench.update(
        {
            LISTING: [
                one(LISTING, "l0", LATER, ListPrice=1),
                one(LISTING, "l2", LATER, company=OTHER),
                one(LISTING, "l3", LATER, company=COMPANY_KEY),
                one(LISTING, "l4", LATER, Status="Canceled"),
                one(LISTING, "new", LATER),
                deletion(LISTING, "l6", LATER),
            ],
            AGENT: [
                one(AGENT, "agents-1", LATER) | {"deactivated_at": LATER},
                deletion(AGENT, identifier_of(AGENT, "agents-2"), LATER),
            ],
        }
    )
    assert summary.exit_code == 0
    code, reported = await world.pull(whole)
    assert (code, {status["proof"] for status in reported.values()}) == (0, {"equal"})
    assert (reported["agents"]["changed"], reported["agents"]["removed"]) == (0, 2)
    assert (reported["listings"]["snapshots"], reported["listings"]["changed"], reported["listings"]["removed"]) == (
        0,
        5,
        1,
    )
    expected = await world.held()
    assert contents(whole) == expected
    code, reported = await world.pull(part, *narrow)
    assert (code, {status["proof"] for status in reported.values()}) == (0, {"equal"})
    # Moved away, off the market, deleted; moved here, changed, new.
    assert (reported["listings"]["removed"], reported["listings"]["changed"]) == (3, 3)
    expected = await world.held(COMPANY_KEY)
    del expected["listings"]["l4"]
    assert contents(part) == expected

    await rollback(world.bench.engine(), LISTING)
    await world.bench.update({LISTING: [one(LISTING, "l8", LATEST, ListPrice=2)]})
    code, reported = await world.pull(whole)
    assert (code, {status["proof"] for status in reported.values()}) == (0, {"equal"})
    assert [name for name, status in reported.items() if status["snapshots"]] == ["listings"]
    assert contents(whole)["listings"] == (await world.held())["listings"]

    change_copy(whole, "DELETE FROM listings_records WHERE id IN ('l10', 'l11')")
    change_copy(whole, "UPDATE teams_records SET record = '{}' WHERE id = 'teams-1'")
    code, reported = await world.pull(whole)
    assert (code, reported["listings"]["different"], reported["teams"]["different"]) == (5, ["l10", "l11"], ["teams-1"])
    code, reported = await world.pull(whole)
    assert (code, {status["proof"] for status in reported.values()}) == (0, {"equal"})
    assert contents(whole)["listings"] == (await world.held())["listings"]


async def test_a_copy_with_a_display_licence_is_proven_while_listings_are_withheld_and_shown(
    world: RealService, tmp_path: Path
) -> None:
    grant = KeyGrant("idx", all_companies=True, rate=None, display=DisplayLicence.IDX)
    store = KeyStore(world.bench.client, world.bench.connection.keys_index)
    reader = replace(world, key=(await store.create(grant)).reveal())
    withheld, hidden = {"InternetEntireListingDisplayYN": False}, {"InternetAddressDisplayYN": False}
    states: list[dict[str, Any]] = [{}, withheld, withheld | {"ListPrice": 9}, {}, hidden, {}, withheld | hidden]
    await reader.pull(tmp_path)
    removed = []
    for day, state in enumerate(states, start=1):
        at = f"2026-02-{day:02}T04:05:06.789Z"
        # The last one is always shown: what the key may not see of the others is no change to wait for.
        changed = [one(LISTING, f"l{number}", at, **state) for number in range(3)]
        await world.bench.update({LISTING: [*changed, one(LISTING, "l9", at, ListPrice=day)]})
        removed.append((await _followed(reader, tmp_path))["removed"])
        held = copied(tmp_path)["listings"]
        assert len(held) == LISTINGS - (3 if "InternetEntireListingDisplayYN" in state else 0)
        assert "l1" not in held or (held["l1"][1]["Address"] is None) is (state == hidden)
    assert removed == [0, 3, 0, 0, 0, 0, 3]
    await world.bench.update({LISTING: [deletion(LISTING, "l1", "2026-02-09T04:05:06.789Z")]})
    assert (await _followed(reader, tmp_path))["removed"] == 1


async def _followed(reader: RealService, folder: Path) -> dict[str, Any]:
    """Pull until the published change has come, for which a process may take a second; return what came of listings."""
    while True:
        code, reported = await reader.pull(folder)
        assert (code, {status["proof"] for status in reported.values()}) == (0, {"equal"})
        listings: dict[str, Any] = reported["listings"]
        if listings["changed"] or listings["removed"]:
            return listings
