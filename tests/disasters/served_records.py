"""What Elasticsearch serves of a resource, read without the service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from elasticsearch import ApiError, NotFoundError

from cluster.control_index import read_mark
from mappings.stored_document import is_move
from tests.chaos.machine_model import state_of

if TYPE_CHECKING:
    from mappings import Resource
    from tests.disasters.disaster_world import DisasterWorld

_AT_MOST = 1_000  # records


@dataclass
class Served:
    """The names of the live records by identifier; `is_settled` if none of them waits to be published."""

    names: dict[str, str]
    is_settled: bool


async def read_served(world: DisasterWorld, place: str, resource: Resource) -> Served | None:
    """Return what is served of a resource from a set of indices; None if there is nothing."""
    connection = world.connection(place)
    try:
        found = await world.admin.search(index=connection.alias(resource), size=_AT_MOST)
        mark = await read_mark(world.admin, connection.control_index, connection.alias(resource))
    except NotFoundError:
        return None
    except ApiError:  # closed: it was so when it was backed up
        return Served({}, is_settled=False)
    documents = {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}
    states = {name: state_of(document) for name, document in documents.items() if not is_move(name)}
    highest = max((document["sequence"] for document in documents.values()), default=0)
    names = {name: state.name for name, state in states.items() if state.name is not None}
    return Served(names, mark is None or highest <= mark.sequence)
