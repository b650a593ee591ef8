"""Records by identifier: read without a search, those of concurrent requests together."""

from collections.abc import Sequence
from functools import partial

from mappings.resource import Resource
from service.http.payload import JsonBytes
from service.records.projection import Variant
from service.request_context import RequestContext
from service.search.exact_values import exact_record
from service.search.shards.scope_reach import record_reach
from service.telemetry.timing import Layer


async def batched_record(call: RequestContext, resource: Resource, name: str, variant: Variant) -> JsonBytes | None:
    """Return the record with an identifier within the scope, or None; concurrent reads share a request."""
    group = (resource.alias, call.scope.companies, call.display, call.exact_names(resource))
    call.audit.searches(resource, call.mark(resource))
    call.timer.record(Layer.QUERY)
    record = await call.services.batch_loader.load(group, name, partial(_look_up, call, resource))
    call.timer.record(Layer.ELASTICSEARCH)
    if record is None:
        return None
    call.audit.names(resource, (name,))
    return variant.encode([record])[0]


async def _look_up(call: RequestContext, resource: Resource, identifiers: Sequence[str]) -> dict[str, JsonBytes]:
    """Return the records in the scope by identifier.

    The company of a record may be too new to be known here: without a scope, what is lacking is read from all shards.
    """
    engine, alias = call.services.engine, call.services.connection.alias(resource)
    selection, reach = call.selection(resource), await record_reach(call, resource)
    found = await engine.read(alias, identifiers, selection, reach)
    lacking = {*identifiers} - {document.identifier for document in found}
    if lacking and reach.companies != selection.scope.companies:
        found += await engine.read(alias, [*lacking], selection, reach._replace(companies=None))
    names = call.exact_names(resource)
    return {each.identifier: exact_record(each.source, names) if names else each.record for each in found}
