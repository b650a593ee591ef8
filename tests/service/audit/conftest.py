"""The service with an audit, over a small market on a real Elasticsearch that tests change."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer

from mappings import AGENT, COMPANY, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from service.app import create_app
from service.audit.reads import SENT, SentPage, WrittenAudit, pages_with
from service.audit.store import AuditStore
from service.keys.store import KeyGrant, KeyStore
from service.services import Services
from tests.feed.feed_client import company, listing, office
from tests.indexer.conftest import Bench, bench
from tests.records import envelope
from tests.service.api_client import services_of
from tests.service_settings import service_settings

__all__ = ["audited", "bench"]

SETTINGS = service_settings(
    fresh_seconds=0.0, stale_seconds=0.0, shared_seconds=0.0, deadline_seconds=300.0, audit_days=30
)
LISTINGS = [f"L{at}" for at in range(6)]
# By resource and state.
Sent = dict[tuple[str, str], list[str]]


@dataclass
class AuditedService:
    """The service, its keys, its audit, and the indexer behind it."""

    http: TestClient[Any, Any]
    keys: dict[str, str]
    bench: Bench

    @property
    def audit(self) -> WrittenAudit:
        services: Services = services_of(self.http)
        return services.of(WrittenAudit)

    @property
    def store(self) -> AuditStore:
        """What the command line sees of it."""
        return AuditStore(self.bench.client, self.bench.connection.audit_index)

    def key_id(self, name: str) -> str:
        return self.keys[name][3:13]

    async def ask(
        self, path: str, key: str = "all", method: str = "GET", **headers: str
    ) -> tuple[int, bytes, Mapping[str, str]]:
        """Return status, body and headers of a request below `/v1`."""
        given = {"x-api-key": self.keys[key], **headers}
        async with self.http.request(method, f"/v1/{path}", headers=given) as answer:
            return answer.status, await answer.read(), answer.headers

    async def json(self, path: str, key: str = "all") -> Any:
        """Return a body that must come with 200."""
        status, body, _ = await self.ask(path, key)
        assert status == 200, body
        return orjson.loads(body)

    async def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the audit, all that is recorded being written first."""
        await self.audit.flush()
        clauses: list[dict[str, Any]] = [{"term": {"kind": SENT}}]
        return [row async for row in self.store.documents(clauses)]

    async def sent(self, key: str = "all", *, unchanged: bool = False) -> Sent:
        """Return the identifiers that a key was sent, and check that each row covers its own."""
        found: Sent = {}
        for row in await self.rows():
            if (row["key_id"], row["unchanged"]) == (self.key_id(key), unchanged):
                names = [line for line in row["pages"].splitlines() if not line.startswith("\t")]
                assert (row["first"], row["last"]) == (min(names), max(names))
                found.setdefault((row["resource"], row["state"]), []).extend(names)
        return {about: sorted(names) for about, names in found.items()}

    async def pages(self, identifier: str, key: str = "all") -> list[SentPage]:
        """Return the pages on which a key was sent a listing, in any state."""
        rows = [row for row in await self.rows() if row["key_id"] == self.key_id(key)]
        return sorted(page for row in rows for page in pages_with(row["pages"], [identifier]))

    async def update(self, *lines: dict[str, Any], resource: Resource = LISTING) -> None:
        """Apply envelopes to what is live."""
        assert (await self.bench.update({resource: lines})).exit_code == 0

    async def sequence(self, resource: Resource = LISTING) -> int:
        return (await self.bench.mark(resource)).sequence


async def load_market(bench: Bench) -> None:
    """Load six listings and one record of each other resource, of the companies a and b."""
    found = await bench.build(
        {
            COMPANY: [company(key) for key in "ab"],
            LISTING: [listing(name, "ab"[at % 2]) for at, name in enumerate(LISTINGS)],
            OFFICE: [office("O1", "a")],
            AGENT: [envelope(AGENT, {"teams": [{"uuid": "team-1"}]}, platform_company_id="a")],
            **{resource: [envelope(resource, platform_company_id="a")] for resource in (TEAM, SOLD_LISTING)},
        }
    )
    assert found.exit_code == 0


@pytest.fixture
async def audited(bench: Bench) -> AsyncIterator[AuditedService]:
    """The service, with a key for everything and one for the company a."""
    await load_market(bench)
    store = KeyStore(bench.client, bench.connection.keys_index)
    grants = {"all": KeyGrant("all", all_companies=True, rate=None), "a": KeyGrant("a", companies=("a",), rate=None)}
    keys = {name: (await store.create(grant)).reveal() for name, grant in grants.items()}
    await AuditStore(bench.client, bench.connection.audit_index).create()
    async with TestClient(TestServer(create_app(replace(SETTINGS), bench.connection))) as http:
        yield AuditedService(http, keys, bench)
