"""Floods of requests that cost the service more than the sender: strangers, misspellings, validators, long polls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

from service.keys.key_text import generate_key
from tests.siege.slow_readers import PAGE
from tests.siege.target import received, repeatedly

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from tests.siege.target import SiegeTarget

_QUERY_BYTES = 8_000
_MISSPELLED = "platform_compny_id", "updatd_since", "markt_status", "property_typs", "last_platform_listng_id"


async def strangers(target: SiegeTarget) -> None:
    """Send invented keys of the right form, each once."""
    async with _session(target) as session:

        async def attempt(_number: int) -> str:
            return await received(session, target.url + PAGE, {"x-api-key": generate_key().reveal()})

        await repeatedly(target.connections, attempt, target.counter("strangers"))


async def misspell(target: SiegeTarget) -> None:
    """Send 8 KB of misspelled parameter names."""
    names = (f"{_MISSPELLED[number % len(_MISSPELLED)]}{number}" for number in range(_QUERY_BYTES // 20))
    url = f"{target.url}/v1/listings?{'&'.join(f'{name}=1' for name in names)}"
    await _flood(target, "misspelled floods", [url])


async def validate_anything(target: SiegeTarget) -> None:
    """Send `If-None-Match: *` with requests for pages."""
    await _flood(target, "`*` validators", [target.url + PAGE], {"If-None-Match": "*"})


async def hoard_long_polls(target: SiegeTarget) -> None:
    """Wait for changes at the end of the feed, with as many connections as possible."""
    async with _session(target) as session:
        url = f"{target.url}/v1/changes"
        async with session.get(url, headers={"x-api-key": target.key(0)}) as answer:
            token = (await answer.json()).get("next", "")
    waiting = f"{url}?since={token}&wait=30"
    await _flood(target, "long-poll hoarders", [waiting])


async def _flood(target: SiegeTarget, attack: str, urls: list[str], headers: Mapping[str, str] | None = None) -> None:
    outcomes: Counter[str] = target.counter(attack)
    async with _session(target) as session:

        async def attempt(number: int) -> str:
            sent = {**(headers or {}), "x-api-key": target.key(number)}
            return await received(session, urls[number % len(urls)], sent)

        await repeatedly(target.connections, attempt, outcomes)


def _session(target: SiegeTarget) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=target.connections)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60))
