"""Single probes of the service and of Elasticsearch."""

import aiohttp
from elasticsearch import AsyncElasticsearch

_NANOSECONDS = 1e9
# The client warns of its own method for tasks, which is in preview.
_JSON = {"accept": "application/vnd.elasticsearch+json; compatible-with=9"}


async def ready_status(url: str) -> int:
    """Return the status of `/readyz`."""
    async with aiohttp.ClientSession() as session, session.get(f"{url}/readyz") as response:
        return response.status


async def search_tasks(client: AsyncElasticsearch, prefix: str) -> list[float]:
    """Return the age in seconds of each running search in indices with a prefix."""
    answer = await client.perform_request("GET", "/_tasks?actions=*search*&detailed=true", headers=_JSON)
    tasks = [task for node in answer.body["nodes"].values() for task in node["tasks"].values()]
    return [task["running_time_in_nanos"] / _NANOSECONDS for task in tasks if prefix in task.get("description", "")]
