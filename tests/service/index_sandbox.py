"""Indices of the service on a real Elasticsearch, created one by one so that each can have its own fault."""

import copy
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient
from elasticsearch import AsyncElasticsearch

from cluster.connection import ConnectionSettings
from cluster.control_index import CONTROL_BODY, Mark, ensure_token_keys, publish_mark
from mappings import COMPANY, RESOURCES, Resource
from mappings.indices import index_body
from service.app import API_ROOT
from service.health.checks import FindingState
from service.health.monitor import HEALTH_MONITOR, HealthMonitor
from service.keys.store import KeyGrant, KeyStore
from service.resources import OPERATIONS
from tests.service.api_client import app_of

# Operations that need more than an identifier to reach their index.
_PATHS = {"/listings": "/listings?platform_company_id=acme", "/companies/{platform_company_id}": "/companies/acme"}
# Every operation, with a path that reaches its index.
OPERATION_PATHS = {
    operation.path: _PATHS.get(operation.path, re.sub(r"\{\w+\}", "one", operation.path)) for operation in OPERATIONS
}


class IndexSandbox:
    """A prefix of its own in the cluster with the indices of the service, and the service over them."""

    def __init__(self, client: AsyncElasticsearch, connection: ConnectionSettings) -> None:
        self.client = client
        self.connection = connection
        self.key = ""
        self.valid: dict[Resource, str] = {}
        self.http: TestClient[web.Request, web.Application]

    async def fill(self) -> None:
        """Create valid indices, with one company and a key."""
        self.valid = {resource: await self.make(resource) for resource in RESOURCES}
        await self.restore()
        await self.client.indices.create(index=self.connection.control_index, **CONTROL_BODY)
        await ensure_token_keys(self.client, self.connection.control_index)
        text = await KeyStore(self.client, self.connection.keys_index).create(
            KeyGrant("all", all_companies=True, rate=None)
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
            "content": 1,
        }
        record = {"platform_company_id": "acme"}
        await self.client.index(
            index=self.valid[COMPANY], id="acme", document={**company, "record": record}, refresh=True
        )

    async def make(self, resource: Resource, without: str = "", **settings: object) -> str:
        """Create an index of a resource, without a given search field if one is named; return the index's name."""
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

    async def restore(self) -> None:
        """Point all aliases at their valid indices."""
        await self.point({resource: [index] for resource, index in self.valid.items()})

    async def status(self, path: str) -> int:
        """Return the status of a request."""
        async with self.http.get(API_ROOT + path, headers={"x-api-key": self.key}) as response:
            return response.status

    async def problem(self, path: str) -> tuple[int, Any]:
        """Return the status and the body of a request that is refused."""
        async with self.http.get(API_ROOT + path, headers={"x-api-key": self.key}) as response:
            return response.status, await response.json(content_type=None)

    async def statuses(self) -> set[int]:
        """Return the statuses of all operations."""
        return {await self.status(path) for path in OPERATION_PATHS.values()}

    async def check_now(self) -> dict[str, tuple[FindingState, str]]:
        """Run the checks now; return the failed ones except that of the cluster, which other tests affect."""
        await self.watch.check_now()
        findings, _ = self.watch.findings()
        findings_by_subject = {finding.subject: (finding.state, finding.problem) for finding in findings}
        return {
            subject: said
            for subject, said in findings_by_subject.items()
            if said[0] is not FindingState.OK and subject != "cluster"
        }

    @property
    def watch(self) -> HealthMonitor:
        """The health monitor of the service."""
        return app_of(self.http)[HEALTH_MONITOR]
