"""What the searches of a request may reach in an index of several shards."""

from typing import Protocol

from cluster.control_index import Mark
from mappings.resource import Resource
from service.scope import CompanyDirectory, Scope
from service.search.cached_value import CachedValue
from service.search.shards.served_shards import MAX_COMPANIES, Reach, ServedShards


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


async def record_reach(call: _Call, resource: Resource) -> Reach:
    """Return what a read by identifier may reach: without a scope, the companies that are known, unless too many."""
    reach = await scope_reach(call, resource)
    if reach.companies is not None or call.served_shards(resource) is None:
        return reach
    # By key and by numeric id.
    is_few = len(call.directory.keys) <= 2 * MAX_COMPANIES
    return reach._replace(companies={*call.directory.keys.values()}) if is_few else reach
