"""What listings were, read over HTTP while the real indexer changes them."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from indexer import rollback
from mappings import COMPANY, LISTING, SOLD_LISTING
from mappings.visibility import DisplayLicence
from service.app import create_app
from service.keys.store import KeyGrant, KeyStore
from service.settings import ServiceSettings
from tests.indexer.conftest import Bench, bench
from tests.openapi.document_validators import body_validator
from tests.records import COMPANY_KEY, deletion, envelope

__all__ = ["bench"]

NAME = "listing-1"


def moment(hour: int) -> str:
    return f"2026-02-{1 + hour // 24:02}T{hour % 24:02}:00:00.000Z"


def state(hour: int, name: str = NAME, company: str = COMPANY_KEY, /, **record: Any) -> dict[str, Any]:
    history = record.pop("history", None)
    given = {"PlatformListingId": name, "ListPrice": 100, "Status": "Active", **record}
    return envelope(LISTING, given, updated_at=moment(hour), platform_company_id=company, history=history)


@dataclass
class Reader:
    """The service over an indexer's data, and keys of every kind."""

    bench: Bench
    http: TestClient[Any, Any]
    keys: dict[str, str]

    async def get(self, path: str, key: str = "all") -> tuple[int, dict[str, Any]]:
        async with self.http.get(f"/v1{path}", headers={"x-api-key": self.keys[key]}) as response:
            return response.status, await response.json()

    async def history(self, name: str = NAME, key: str = "all") -> dict[str, Any]:
        status, body = await self.get(f"/listings/{name}/history", key)
        assert status == 200, body
        return body

    async def changes(self, name: str = NAME) -> list[tuple[str, Any, Any]]:
        """Return the changes, the oldest first: when, the value before and the value after."""
        listed = (await self.history(name))["changes"]
        return [(one["time"], *one["previous"].values(), *one["new"].values()) for one in reversed(listed)]

    async def update(self, *lines: dict[str, Any], **options: Any) -> None:
        assert (await self.bench.update({LISTING: list(lines)}, **options)).exit_code == 0

    async def rebuild(self, *lines: dict[str, Any], **options: Any) -> None:
        await rebuild(self.bench, *lines, **options)


async def rebuild(bench: Bench, *lines: dict[str, Any], **options: Any) -> None:
    companies = [envelope(COMPANY), envelope(COMPANY, {"platform_company_id": "b", "numeric_id": "4200"})]
    assert (await bench.build({COMPANY: companies, LISTING: list(lines)}, **options)).exit_code == 0


@pytest.fixture
async def reader(bench: Bench) -> AsyncIterator[Reader]:
    store = KeyStore(bench.client, bench.connection.keys_index)
    grants = {
        "all": KeyGrant("all", all_companies=True, rate=None),
        "b": KeyGrant("b", companies=("b",), rate=None),
        "idx": KeyGrant("idx", all_companies=True, rate=None, display=DisplayLicence.IDX),
    }
    keys = {name: (await store.create(grant)).reveal() for name, grant in grants.items()}
    await rebuild(bench, state(0))
    async with TestClient(TestServer(create_app(ServiceSettings(), bench.connection))) as http:
        yield Reader(bench, http, keys)


async def test_changes_are_listed_with_what_follows_from_them(reader: Reader) -> None:
    before = await reader.history()
    assert before["changes"] == []
    assert before["OriginalListPrice"] is None
    await reader.update(state(1, ListPrice=90))
    await reader.update(state(2, ListPrice=90, Status="Pending"), state(3, ListPrice=80, Status="Withdrawn"))
    await reader.update(state(4, ListPrice=80, Status="Active"))
    found = await reader.history()
    assert found.pop("first_seen") == before["first_seen"]
    assert found == {
        "PlatformListingId": NAME,
        "OriginalListPrice": 100,
        "PreviousListPrice": 90,
        "PriceChangeTimestamp": moment(3),
        "StatusChangeTimestamp": moment(4),
        "MajorChangeType": "Back On Market",
        "MajorChangeTimestamp": moment(4),
        "OnMarketTimestamp": moment(4),
        "OffMarketTimestamp": moment(3),
        "changes": [
            {"time": moment(4), "changed": "status", "previous": {"Status": "Withdrawn"}, "new": {"Status": "Active"}},
            {"time": moment(3), "changed": "status", "previous": {"Status": "Active"}, "new": {"Status": "Withdrawn"}},
            {"time": moment(3), "changed": "price", "previous": {"ListPrice": 90}, "new": {"ListPrice": 80}},
            {"time": moment(1), "changed": "price", "previous": {"ListPrice": 100}, "new": {"ListPrice": 90}},
        ],
    }


async def test_late_lines_and_lines_that_come_again_add_no_change(reader: Reader) -> None:
    await reader.update(state(5, ListPrice=90))
    seen = await reader.changes()
    await reader.bench.update({LISTING: [state(3, ListPrice=70), state(1, ListPrice=60, Status="Pending")]})
    await reader.update(state(5, ListPrice=90))
    await reader.update(state(6, ListPrice=90, PublicRemarks="New"))
    assert await reader.changes() == seen == [(moment(5), 100, 90)]


async def test_a_rebuild_keeps_the_history_and_adds_what_its_source_changes(reader: Reader) -> None:
    await reader.update(state(1, ListPrice=90))
    await reader.rebuild(state(1, ListPrice=90))
    assert await reader.changes() == [(moment(1), 100, 90)]
    await reader.rebuild(state(2, ListPrice=80))
    assert await reader.changes() == [(moment(1), 100, 90), (moment(2), 90, 80)]
    # A rollback serves the state of before, and its history; the next change is one since that state.
    await rollback(reader.bench.engine(), LISTING)
    assert await reader.changes() == [(moment(1), 100, 90)]
    await reader.update(state(3, ListPrice=70))
    assert await reader.changes() == [(moment(1), 100, 90), (moment(3), 90, 70)]


@pytest.mark.parametrize("seed", range(3))
async def test_the_history_is_that_of_the_states_that_were_served(
    reader: Reader, seed: int, amount: Callable[[int, int], int]
) -> None:
    chosen = Random(seed)  # noqa: S311 - repeatable, not secret
    served = [(100, "Active")]
    for _ in range(amount(12, 300)):
        hour = len(served)
        late = [state(hour - 1, ListPrice=1, Status="Expired")] if hour > 1 else []
        new = (chosen.choice([100, 90, 80]), chosen.choice(["Active", "Pending", "Withdrawn"]))
        line = state(hour, ListPrice=new[0], Status=new[1])
        if chosen.random() < 0.3:
            await reader.rebuild(line)
        else:
            await reader.update(*chosen.choice([[line], [line, *late], [*late, line], [line, line]]))
        served.append(new)
        steps = list(enumerate(pairwise(served), start=1))
        for member, name in enumerate(("price", "status")):
            both = [(moment(at), old[member], new[member]) for at, (old, new) in steps]
            expected = [one for one in both if one[1] != one[2]]
            listed = [one for one in (await reader.history())["changes"] if one["changed"] == name]
            found = [(one["time"], *one["previous"].values(), *one["new"].values()) for one in reversed(listed)]
            assert found == expected[-len(found) :] if found else not expected


async def test_a_record_that_returns_or_moves_begins_a_new_history(reader: Reader) -> None:
    await reader.update(state(1, ListPrice=90), state(1, "moves", ListPrice=5))
    await reader.update(state(2, "moves", ListPrice=6))
    await reader.update(deletion(LISTING, NAME, moment(2)))
    assert (await reader.get(f"/listings/{NAME}/history"))[0] == 404
    await reader.update(state(3, ListPrice=80), state(3, "moves", "b", ListPrice=7))
    assert await reader.changes() == await reader.changes("moves") == []
    assert (await reader.get("/listings/moves/history", "b"))[0] == 200
    assert (await reader.get(f"/listings/{NAME}/history", "b"))[0] == 404


async def test_old_changes_are_forgotten_but_for_the_last_and_the_original_price(reader: Reader) -> None:
    for hour in range(1, 6):
        await reader.update(state(hour, ListPrice=100 - hour))
    await reader.update(state(6, ListPrice=94), history_days=0)
    assert await reader.changes() == [(moment(6), 95, 94)]
    assert (await reader.history())["OriginalListPrice"] == 100
    await reader.update(state(7, ListPrice=93))
    # A rebuild writes the record again, and drops what has become too old since.
    assert len(await reader.changes()) == 2
    await reader.rebuild(state(7, ListPrice=93), history_days=0)
    assert await reader.changes() == [(moment(7), 94, 93)]
    assert (await reader.history())["OriginalListPrice"] == 100


async def test_what_the_source_says_is_passed_on(reader: Reader) -> None:
    given = {"OriginalListPrice": 120.5, "OnMarketTimestamp": "2025-12-01T10:00:00-08:00", "MajorChangeType": "Active"}
    await reader.update(state(1, ListPrice=90, history=given))
    found = await reader.history()
    assert found["OriginalListPrice"] == 120.5
    assert found["OnMarketTimestamp"] == "2025-12-01T18:00:00.000Z"
    assert (found["MajorChangeType"], found["MajorChangeTimestamp"]) == ("Active", None)
    assert found["PreviousListPrice"] == 100
    await reader.update(state(2, ListPrice=90))
    assert (await reader.history())["OriginalListPrice"] == 100


@pytest.mark.parametrize(
    ("history", "field", "reason"),
    [
        ({"PriceChangeTimestamp": "yesterday"}, "history.PriceChangeTimestamp", "ISO 8601"),
        ({"PriceChangeTimestamp": "2026-02-31T00:00:00Z"}, "history.PriceChangeTimestamp", "not a valid date-time"),
        ({"PreviousListPrize": 3}, "history.PreviousListPrize", "Did you mean PreviousListPrice?"),
        ({"PreviousListPrice": "3"}, "history.PreviousListPrice", "expected"),
    ],
)
async def test_an_invalid_history_is_refused_by_name(reader: Reader, history: Any, field: str, reason: str) -> None:
    await reader.bench.update({LISTING: [state(1, history=history)]})
    (letter,) = reader.bench.letters()
    assert letter["field"] == field
    assert reason in letter["reason"]


async def test_a_display_licence_does_not_show_what_was_withheld(reader: Reader) -> None:
    await reader.update(state(1, ListPrice=90), state(1, "open", ListPrice=1))
    await reader.update(state(2, ListPrice=90, InternetEntireListingDisplayYN=False), state(2, "open", ListPrice=2))
    assert (await reader.get(f"/listings/{NAME}/history", "idx"))[0] == 404
    await reader.update(state(3, ListPrice=70, InternetEntireListingDisplayYN=False))
    await reader.update(state(4, ListPrice=70))
    hidden, shown = await reader.history(key="idx"), await reader.history("open", "idx")
    assert (hidden["changes"], hidden["OriginalListPrice"], "first_seen" in hidden) == ([], None, False)
    assert (len(shown["changes"]), shown["OriginalListPrice"], "first_seen" in shown) == (1, 1, True)
    assert len((await reader.history())["changes"]) == 2
    for path in (f"/reso/Property('{NAME}')", f"/reso/Property('{NAME}')?$expand=HistoryTransactional"):
        status, body = await reader.get(path, "idx")
        assert (status, body["OriginalListPrice"], body.get("HistoryTransactional", [])) == (200, None, [])
    for filtered, count in ((NAME, 0), ("open", 1)):
        path = f"/reso/HistoryTransactional?$count=true&$filter=ResourceRecordKey eq '{filtered}'"
        status, body = await reader.get(path, "idx")
        assert (status, body["@odata.count"], len(body["value"])) == (200, count, count)


async def test_spelling_and_refusals(reader: Reader) -> None:
    await reader.update(state(1, ListPrice=90))
    described = body_validator("/listings/{platform_listing_id}/history", 200)
    described.validate(await reader.history())
    status, body = await reader.get(f"/listings/{NAME}/history?underscore_response=true")
    assert (status, body["original_list_price"], body["changes"][0]["previous"]) == (200, 100, {"list_price": 100})
    described.validate(body)
    status, body = await reader.get(f"/listings/{NAME}/history?platform_listing_id=another")
    assert (status, body["errors"][0]["parameter"]) == (400, "platform_listing_id")
    assert (await reader.get("/sold_listings/none/history"))[0] == 404


async def test_a_sold_listing_has_both_prices(reader: Reader) -> None:
    record = {"PlatformListingId": "s", "ListPrice": 100, "SoldPrice": 95, "Status": "Sold", "OnMarket": False}
    await reader.bench.build({SOLD_LISTING: [envelope(SOLD_LISTING, record, updated_at=moment(0))]})
    changed = envelope(SOLD_LISTING, record | {"SoldPrice": 96}, updated_at=moment(1))
    assert (await reader.bench.update({SOLD_LISTING: [changed]})).exit_code == 0
    status, body = await reader.get("/reso/Property('s')/HistoryTransactional")
    assert (status, [row["ResourceRecordKey"] for row in body["value"]]) == (200, ["s"])
    status, body = await reader.get("/sold_listings/s/history")
    assert (status, body["changes"][0]["previous"], body["PreviousListPrice"]) == (200, {"SoldPrice": 95}, None)
    status, body = await reader.get("/reso/HistoryTransactional?$filter=ResourceRecordKey eq 's'")
    assert (status, [(row["FieldName"], row["PreviousValue"], row["NewValue"]) for row in body["value"]]) == (
        200,
        [("ClosePrice", "95", "96")],
    )
