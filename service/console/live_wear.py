"""The wear of the live indices, as the console shows it."""

from collections.abc import Mapping

from cluster.connection import ConnectionSettings
from cluster.index_wear import WEAR_FILTER, WEAR_METRICS, IndexWear, read_wear
from mappings import RESOURCES
from service.errors import ApiError
from service.health.checks import StatusReader, get_within_timeout


async def read_live_wear(engine: StatusReader, connection: ConnectionSettings) -> Mapping[str, IndexWear]:
    """Return the wear of each index behind the aliases; nothing without the privilege, or without Elasticsearch."""
    aliases = ",".join(map(connection.alias, RESOURCES))
    options = f"level=shards&ignore_unavailable=true&filter_path={WEAR_FILTER}"
    try:
        status, body = await get_within_timeout(engine, f"/{aliases}/_stats/{WEAR_METRICS}?{options}")
    except ApiError:
        return {}
    indices = body.get("indices", {}) if status == 200 else {}
    return {index: read_wear(facts["shards"]) for index, facts in indices.items()}
