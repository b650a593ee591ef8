"""Requests that cost most within all limits: filters, expansions, orders, skipped rows; and forms that never arrive."""

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence

import aiohttp
from yarl import URL

from service.reso.sets.declarations import ENTITY_SETS
from tests.odata.worst_requests import WorstRequest, worst_requests
from tests.siege.slow_readers import status_of
from tests.siege.target import SiegeTarget, json_page, received, repeatedly, session_of

_KEYS = 500
_FORM_BYTES = 1_000
_PROFILE = "application/vnd.example+json;version=1"


async def filter_dearly(target: SiegeTarget) -> None:
    """Send the worst filters of each entity set: long lists, many patterns, children of many parents."""
    await _ask(target, "costly filters", lambda asked: "$filter" in asked.path)


async def expand_dearly(target: SiegeTarget) -> None:
    """Send the largest pages with all expansions, and orders by ten properties with rows to skip."""
    await _ask(target, "costly expansions and orders", lambda asked: "$filter" not in asked.path)


async def _ask(target: SiegeTarget, attack: str, is_chosen: Callable[[WorstRequest], bool]) -> None:
    outcomes = target.counter(attack)
    async with session_of(target) as session:
        chosen = itertools.cycle([asked for asked in worst_requests(await _keys(session, target)) if is_chosen(asked)])

        async def attempt(number: int) -> str:
            asked = next(chosen)
            url = URL(f"{target.url}/v1/reso/{asked.path}", encoded=True)
            return await received(
                session, url, {"x-api-key": target.key(number), "Prefer": f"maxpagesize={asked.rows}"}
            )

        await repeatedly(target.connections, attempt, outcomes)


async def _keys(session: aiohttp.ClientSession, target: SiegeTarget) -> Mapping[str, Sequence[str]]:
    """Return keys by entity set, for children those of their parents, so that filters find something."""
    keys = dict[str, list[str]]()
    for name in ("Property", "Member"):
        field = ENTITY_SETS[name].key
        page = await json_page(session, target, f"/v1/reso/{name}?$select={field}&$top={_KEYS}", "costly filters")
        keys[name] = [row[field] for row in page.get("value", ())] or ["unknown"]
    return keys | {"Media": keys["Property"], "OpenHouse": keys["Property"], "TeamMembers": keys["Member"]}


async def withhold_forms(target: SiegeTarget) -> None:
    """Announce the form of a request of the compatible profile, and never send it."""

    async def attempt(number: int) -> str:
        async with target.connected() as (reader, writer):
            headers = f"Host: siege\r\nx-api-key: {target.key(number)}\r\nAccept: {_PROFILE}\r\n"
            form = f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {_FORM_BYTES}\r\n"
            writer.write(f"GET /api/listings HTTP/1.1\r\n{headers}{form}\r\n".encode())
            return await asyncio.wait_for(status_of(reader), target.hold_seconds)

    await repeatedly(target.connections, attempt, target.counter("forms that never arrive"))
