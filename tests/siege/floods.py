"""Floods of requests that cost the service more than the sender: strangers, misspellings, validators, long polls."""

import itertools
from collections import Counter
from collections.abc import Mapping

import aiohttp

from service.keys.api_key import generate_key
from tests.siege.slow_readers import PAGE
from tests.siege.target import SiegeTarget, json_page, received, repeatedly, session_of

_QUERY_BYTES = 7_900
_LONG_POLLS = "long-poll hoarders"
_MISSPELLED = "platform_compny_id", "updatd_since", "markt_status", "property_typs", "last_platform_listng_id"


async def strangers(target: SiegeTarget) -> None:
    """Send invented keys of the right form, each once."""
    async with session_of(target) as session:

        async def attempt(_number: int) -> str:
            return await received(session, target.url + PAGE, {"x-api-key": generate_key().reveal()})

        await repeatedly(target.connections, attempt, target.counter("strangers"))


async def misspell(target: SiegeTarget) -> None:
    """Send almost 8 KB of misspelled parameter names, the longest URL that is accepted."""
    query = ""
    for number in itertools.count():
        query += f"&{_MISSPELLED[number % len(_MISSPELLED)]}{number}=1"
        if len(query) > _QUERY_BYTES:
            break
    await _flood(target, "misspelled floods", f"{target.url}/v1/listings?{query[1:]}")


async def validate_anything(target: SiegeTarget) -> None:
    """Send `If-None-Match: *` with requests for pages."""
    await _flood(target, "`*` validators", target.url + PAGE, {"If-None-Match": "*"})


async def hoard_long_polls(target: SiegeTarget) -> None:
    """Wait for changes at the end of the feed, with as many connections as possible."""
    async with session_of(target) as session:
        token = await _last_token(session, target)
    await _flood(target, _LONG_POLLS, f"{target.url}/v1/changes?since={token}&wait=30")


async def _last_token(session: aiohttp.ClientSession, target: SiegeTarget) -> str:
    """Walk to the end of the changes of companies, as any reader does."""
    since = ""
    while True:
        path = f"/v1/changes?resources=companies&page_size=1000{since}"
        page = await json_page(session, target, path, _LONG_POLLS)
        if page["at_end"]:
            return str(page["next"])
        since = f"&since={page['next']}"


async def _flood(target: SiegeTarget, attack: str, url: str, headers: Mapping[str, str] | None = None) -> None:
    outcomes: Counter[str] = target.counter(attack)
    async with session_of(target) as session:

        async def attempt(number: int) -> str:
            sent = {**(headers or {}), "x-api-key": target.key(number)}
            return await received(session, url, sent)

        await repeatedly(target.connections, attempt, outcomes)
