"""The mark that an operation of the feed reads up to, refused if it does not describe what is served."""

from cluster.control_index import Mark
from mappings.resource import Resource
from service.request_context import RequestContext


async def published_mark(call: RequestContext, resource: Resource) -> Mark | None:
    """Return the mark of a resource, None before its first build; raise ApiError.

    That is the case if the mark cannot be renewed, its index is unusable, or its data were replaced.
    """
    mark = await call.services.marks[resource].get_renewed()
    if mark is not None:
        require_described(call, resource)
    return mark


def require_described(call: RequestContext, resource: Resource) -> None:
    """Raise ApiError if the index of a resource is unusable, or not the one that its mark describes."""
    engine, alias = call.services.engine, call.services.connection.alias(resource)
    engine.require_available(alias)
    engine.require_continued(alias)
