"""The rows that a request for an entity set selects, by the kind of the entity set."""

from collections.abc import Sequence
from typing import Any

from service.request_context import RequestContext
from service.reso.child_sets.child_query import count_selected, query_child, query_children
from service.reso.child_sets.child_set import ChildSet
from service.reso.entity_sets.entity_query import count_records, query_record, query_records
from service.reso.entity_sets.entity_set import EntitySet
from service.reso.expand.expanded_rows import expand
from service.reso.paging.collection_response import PageSource
from service.reso.static_sets.static_query import query_static, query_static_row, select_static
from service.reso.static_sets.static_set import StaticSet


def query_entities(call: RequestContext, entity_set: EntitySet) -> PageSource[Any]:
    """Return the rows that the query options select; raise ApiError for invalid ones."""
    if isinstance(entity_set, StaticSet):
        return query_static(call, entity_set)
    if isinstance(entity_set, ChildSet):
        return query_children(call, entity_set)
    return expand(call, query_records(call, entity_set))


async def count_entities(call: RequestContext, entity_set: EntitySet) -> int:
    """Return the number of rows that `$filter` selects; raise ApiError for an invalid one."""
    if isinstance(entity_set, StaticSet):
        return len(select_static(call, entity_set))
    if isinstance(entity_set, ChildSet):
        return await count_selected(call, entity_set)
    return await count_records(call, entity_set)


def query_entity(call: RequestContext, entity_set: EntitySet, key: str, names: Sequence[str] | None) -> PageSource[Any]:
    """Return the row with a key, with some properties, None for all; raise InvalidRequest for an unknown one."""
    if isinstance(entity_set, StaticSet):
        return query_static_row(call, entity_set, key, names)
    if isinstance(entity_set, ChildSet):
        return query_child(call, entity_set, key, names)
    return expand(call, query_record(call, entity_set, key, names))
