"""A feed consumer for tests: its requests, and the copy that it maintains."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp.test_utils import TestClient

from mappings import COMPANY, LISTING, OFFICE, Resource
from tests.indexer.conftest import Bench
from tests.records import deletion, envelope

JsonObject = dict[str, Any]
# What is kept of a record: its content hash and itself.
StoredRecord = tuple[str, JsonObject]


def company(key: str) -> JsonObject:
    """Return the envelope of a company."""
    return envelope(COMPANY, {"platform_company_id": key, "numeric_id": None})


def source_time(second: int) -> str:
    """Return a second of a day at the source."""
    return f"2026-01-03T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def listing(identifier: str, of: str, second: int = 0, *, price: int = 1, status: str = "Active") -> JsonObject:
    """Return the envelope of a listing of a company."""
    record = {"PlatformListingId": identifier, "ListPrice": price, "Status": status}
    return envelope(LISTING, record, updated_at=source_time(second), platform_company_id=of)


def deleted_listing(identifier: str, of: str, second: int) -> JsonObject:
    """Return the envelope that deletes a listing."""
    return deletion(LISTING, identifier, source_time(second)) | {"platform_company_id": of}


def office(identifier: str, of: str, second: int = 0, *, deactivated: bool = False) -> JsonObject:
    """Return the envelope of an office."""
    at = source_time(second) if deactivated else None
    record = {"platform_office_id": identifier, "name": f"{identifier} at {second}"}
    return envelope(OFFICE, record, updated_at=source_time(second), platform_company_id=of, deactivated_at=at)


@dataclass(frozen=True)
class FeedClient:
    """The service, its keys, and the indexer behind it."""

    http: TestClient[Any, Any]
    keys: dict[str, str]
    bench: Bench

    async def get(self, path: str, key: str = "a", /, **parameters: object) -> tuple[int, bytes]:
        """Return status and body."""
        query = {name: str(value) for name, value in parameters.items() if value is not None}
        async with self.http.get(f"/v1/{path}", params=query, headers={"x-api-key": self.keys[key]}) as answer:
            return answer.status, await answer.read()

    async def json(self, path: str, key: str = "a", /, **parameters: object) -> JsonObject:
        """Return a body that must come with 200."""
        status, body = await self.get(path, key, **parameters)
        assert status == 200, body
        answer: JsonObject = orjson.loads(body)
        return answer

    async def problem(self, path: str, key: str = "a", /, **parameters: object) -> tuple[int, str]:
        """Return status and code of a problem."""
        status, body = await self.get(path, key, **parameters)
        return status, orjson.loads(body)["code"]

    async def changes(self, token: str | None, key: str = "a", /, **parameters: object) -> tuple[list[JsonObject], str]:
        """Return all changes since a token, up to the end, and the next token."""
        found: list[JsonObject] = []
        while True:
            page = await self.json("changes", key, since=token, **parameters)
            found += page["changes"]
            token = page["next"]
            if page["at_end"]:
                return found, token

    async def token(self, key: str = "a", /, **parameters: object) -> str:
        """Return the token of the present."""
        return (await self.changes(None, key, **parameters))[1]

    async def summaries(self, token: str, key: str = "a", /, **parameters: object) -> list[tuple[str, str | int]]:
        """Return of each change since a token the identifier, and why it is gone or what its price is."""
        changes, _ = await self.changes(token, key, **parameters)
        return [(each["id"], each.get("reason") or each["record"].get("ListPrice", "here")) for each in changes]

    async def snapshot(self, resource: str, key: str = "a", /, **parameters: object) -> list[JsonObject]:
        """Return the lines of a snapshot."""
        status, body = await self.get(f"snapshot/{resource}", key, **parameters)
        assert status == 200, body
        return [orjson.loads(line) for line in body.splitlines()]

    async def update(self, *lines: JsonObject, resource: Resource = LISTING) -> None:
        """Apply envelopes to what is live."""
        assert (await self.bench.update({resource: lines})).exit_code == 0

    async def rebuild(self, *lines: JsonObject) -> None:
        """Rebuild the listings, however many are new or gone."""
        summary = await self.bench.build({COMPANY: [company(key) for key in "abc"], LISTING: lines}, force=True)
        assert summary.exit_code == 0


@dataclass
class ConsumerCopy:
    """A consumer's copy of one resource."""

    resource: str
    records: dict[str, StoredRecord] = field(default_factory=dict)
    token: str = ""

    def load(self, lines: list[JsonObject]) -> None:
        """Take a whole snapshot."""
        self.token, self.records = lines[0]["token"], {}
        for line in lines[1:-1]:
            self.records[line["id"]] = line["content"], line["record"]
        assert self.digest(self.records) == (lines[-1]["count"], lines[-1]["digest"])

    def apply(self, changes: list[JsonObject]) -> None:
        """Apply changes in their order."""
        for change in changes:
            if "reason" in change:
                self.records.pop(change["id"], None)
            else:
                self.records[change["id"]] = change["content"], change["record"]

    @staticmethod
    def digest(records: dict[str, StoredRecord]) -> tuple[int, str]:
        """Return count and digest by the published definition."""
        hashes = (hashlib.sha256(bytes.fromhex(kept[0]) + name.encode()).digest()[:8] for name, kept in records.items())
        return len(records), f"{sum(map(int.from_bytes, hashes)) % 2**64:016x}"
