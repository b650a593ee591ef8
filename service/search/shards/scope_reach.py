"""What the searches of a request may reach in an index of several shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from mappings.stored_document import feed_key
from service.search.shards.served_shards import MAX_COMPANIES, Reach

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from cluster.control_index import Mark
    from mappings.resource import Resource
    from service.scope import CompanyDirectory, Scope
    from service.search.cached_value import CachedValue
    from service.search.shards.served_shards import ServedShards


class _Services(Protocol):
    @property
    def marks(self) -> dict[Resource, CachedValue[Mark | None]]: ...


class _Call(Protocol):
    @property
    def scope(self) -> Scope: ...
    @property
    def directory(self) -> CompanyDirectory: ...
    @property
    def services(self) -> _Services: ...
    def served_shards(self, resource: Resource) -> ServedShards | None: ...


async def scope_reach(call: _Call, resource: Resource, sequence: int | None = None) -> Reach:
    """Return what a search may reach: the scope, at the given mark or one that is not outdated; raise ApiError.

    Within one company no record is in two shards, so the latest state is as good.
    """
    companies = call.scope.companies
    if sequence is None and call.scope.single_company is None and call.served_shards(resource) is not None:
        mark = await call.services.marks[resource].get_renewed()
        sequence = None if mark is None else mark.sequence
    return Reach(companies, sequence)


def identifier_keys(call: _Call, resource: Resource, identifiers: Iterable[str]) -> Collection[str] | None:
    """Return the feed keys that records with these identifiers have, as far as companies are known.

    Return None for one shard, and for more companies than are worth it.
    """
    companies: Collection[str] | None = call.scope.companies
    if companies is None and len(call.directory.keys) <= 2 * MAX_COMPANIES:  # by key and by numeric id
        companies = {*call.directory.keys.values()}
    if companies is None or len(companies) > MAX_COMPANIES or call.served_shards(resource) is None:
        return None
    return [feed_key(company, identifier) for company in companies for identifier in identifiers]
