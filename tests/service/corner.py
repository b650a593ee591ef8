"""Indices of the service on a real Elasticsearch, made one by one so that they can be wrong one by one."""

from __future__ import annotations

import copy
import secrets
from typing import TYPE_CHECKING, Any

from cluster.control import CONTROL_BODY, Mark, publish_mark
from mappings import COMPANY, RESOURCES, Resource
from mappings.index import index_body
from service.app import ROOT
from service.health import WATCH
from service.keys.store import Grant, KeyStore
from service.soundness import State

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp import web
    from aiohttp.test_utils import TestClient
    from elasticsearch import AsyncElasticsearch

    from cluster.connection import ConnectionSettings
    from service.watch import Watch

# Every operation, with what it needs to reach its index.
ASKED = {
    "/listings": "/listings?platform_company_id=acme",
    "/listings/{platform_listing_id}": "/listings/one",
    "/sold_listings": "/sold_listings",
    "/sold_listings/{platform_listing_id}": "/sold_listings/one",
    "/agents": "/agents",
    "/agents/{guid}": "/agents/one",
    "/offices": "/offices",
    "/offices/{platform_office_id}": "/offices/one",
    "/teams": "/teams",
    "/teams/{platform_team_id}": "/teams/one",
    "/companies": "/companies",
    "/companies/{platform_company_id}": "/companies/acme",
}


class Corner:
    """Indices of the service in a corner of the cluster, and the service over them."""

    def __init__(self, client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
        """Nothing is there yet."""
        self.client = client
        self.connection = connection
        self.key = ""
        self.sound: dict[Resource, str] = {}
        self.http: TestClient[web.Request, web.Application]

    async def fill(self) -> None:
        """Make what a sound corner has, with one company and a key."""
        self.sound = {resource: await self.make(resource) for resource in RESOURCES}
        await self.mend()
        await self.client.indices.create(index=self.connection.control_index, **CONTROL_BODY)
        text = await KeyStore(self.client, self.connection.keys_index).create(
            Grant("all", all_companies=True, rate=None)
        )
        self.key = text.reveal()
        for alias in map(self.connection.alias, RESOURCES):
            mark = Mark(clock=1, sequence=1, epoch=0, generation=alias)
            await publish_mark(self.client, self.connection.control_index, alias, mark)
        company = {
            "id": "acme",
            "feed_key": "acme:acme",
            "company": "acme",
            "deleted": False,
            "clock": 1,
            "sequence": 1,
        }
        record = {"platform_company_id": "acme"}
        await self.client.index(
            index=self.sound[COMPANY], id="acme", document={**company, "record": record}, refresh=True
        )

    async def make(self, resource: Resource, without: str = "", **settings: object) -> str:
        """Create an index of a resource, without a search field where one is named, and return its name."""
        body: dict[str, Any] = copy.deepcopy(index_body(resource))
        if without:
            del body["mappings"]["properties"][without]
            body["mappings"]["_meta"]["fingerprint"] = "old"
        body["settings"] |= {"index.refresh_interval": "1s", "index.number_of_replicas": 0, **settings}
        name = f"{self.connection.alias(resource)}-{secrets.token_hex(4)}"
        # Not waited for: some are made to have no node.
        await self.client.indices.create(index=name, **body, wait_for_active_shards="0")
        return name

    async def point(self, targets: Mapping[Resource, Sequence[str]], **options: object) -> None:
        """Point aliases at these indices and at no others, in one step."""
        aliases = {self.connection.alias(resource): names for resource, names in targets.items()}
        present = await self.client.indices.get_alias(index=f"{self.connection.prefix}*", expand_wildcards="all")
        actions: list[dict[str, Any]] = [
            {"remove": {"index": index, "alias": alias}}
            for index, facts in present.items()
            for alias in aliases.keys() & facts["aliases"].keys()
        ]
        actions += [
            {"add": {"index": index, "alias": alias, **options}} for alias, names in aliases.items() for index in names
        ]
        if actions:
            await self.client.indices.update_aliases(actions=actions)

    async def mend(self) -> None:
        """Point all aliases at their sound indices."""
        await self.point({resource: [index] for resource, index in self.sound.items()})

    async def status(self, path: str) -> int:
        """Return the status of a request."""
        async with self.http.get(ROOT + path, headers={"x-api-key": self.key}) as response:
            return response.status

    async def statuses(self) -> set[int]:
        """Return the statuses of all operations."""
        return {await self.status(path) for path in ASKED.values()}

    async def look(self) -> dict[str, tuple[State, str]]:
        """Take a round of checks now, and return what is not well, without what other tests do to the cluster."""
        await self.watch.look()
        findings, _ = self.watch.findings()
        told = {finding.subject: (finding.state, finding.problem) for finding in findings}
        return {subject: said for subject, said in told.items() if said[0] is not State.OK and subject != "cluster"}

    @property
    def watch(self) -> Watch:
        """What watches the corner for the service."""
        assert self.http.app is not None
        return self.http.app[WATCH]
