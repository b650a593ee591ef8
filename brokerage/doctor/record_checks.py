"""Checks of the live records by `brokerage doctor`: their identifiers."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from elastic_transport import TransportError
from elasticsearch import ApiError, AsyncElasticsearch, AuthorizationException

from cluster.connection import ConnectionSettings
from mappings import RESOURCES
from mappings.identifiers import MAX_BYTES, RULE, is_identifier
from mappings.shards.visibility import LEFT_QUERY
from service.health.checks import Finding, FindingState, missing_privilege

IDENTIFIERS = "identifiers"
_CANDIDATES, _EXAMPLES = 100, 3
_SECONDS = "4s"  # for one resource
# What today's alphabet lacks of what earlier versions accepted, by the field `<company>:<identifier>`: control
# characters beyond ASCII, and more bytes than fit, which take characters of four bytes.
_PATTERN = f".*[\u0080-\u009f].*|.{{{MAX_BYTES // 4},}}&.*[^\u0000-\uffff].*"
_OUTSIDE = [{"regexp": {"feed_key": {"value": _PATTERN}}}, {"ids": {"values": [".", ".."]}}]
_QUERY = {
    "bool": {"must_not": [{"term": {"deleted": True}}, LEFT_QUERY], "should": _OUTSIDE, "minimum_should_match": 1}
}


async def identifier_finding(client: AsyncElasticsearch, connection: ConnectionSettings) -> Finding:
    """Check the identifiers of live records, at most 100 suspects of each resource. Requires `read` on the indices."""

    async def check() -> Finding:
        answers = {one.alias: await _search(client, connection.alias(one)) for one in RESOURCES}
        found = {name: _outside(answer) for name, answer in answers.items()}
        is_whole = not any(answer["timed_out"] for answer in answers.values())
        outside = {name: identifiers for name, identifiers in found.items() if identifiers}
        return unreachable_records(outside, is_whole=is_whole)

    return await checked_records(IDENTIFIERS, check)


async def _search(client: AsyncElasticsearch, alias: str) -> Any:
    return await client.search(
        index=alias,
        query=_QUERY,
        size=_CANDIDATES,
        timeout=_SECONDS,
        source=False,
        track_total_hits=False,
        ignore_unavailable=True,
    )


def _outside(answer: Any) -> list[str]:
    return [hit["_id"] for hit in answer["hits"]["hits"] if not is_identifier(hit["_id"])]


def unreachable_records(found: Mapping[str, list[str]], *, is_whole: bool) -> Finding:
    """Return whether live records have identifiers that cannot be requested, from those found by resource."""
    if not found and not is_whole:
        problem = f"too many to look at within {_SECONDS} for each resource"
        return Finding(subject=IDENTIFIERS, state=FindingState.UNKNOWN, problem=problem)
    if not found:
        return Finding(subject=IDENTIFIERS, detail="all can be requested")
    return Finding(
        subject=IDENTIFIERS,
        state=FindingState.WARNING,
        problem="some records cannot be requested",
        detail="; ".join(f"{name}: {_described(identifiers)}" for name, identifiers in found.items())
        + f". An identifier {RULE}.",
        remedy="Give them other identifiers at the source, delete the old ones with `brokerage index update`, or "
        "rebuild with `brokerage index reindex`. `brokerage index verify SOURCE` lists all of them.",
    )


def _described(identifiers: list[str]) -> str:
    return f"{len(identifiers)} or more, {', '.join(map(ascii, identifiers[:_EXAMPLES]))}"


async def checked_records(subject: str, check: Callable[[], Awaitable[Finding]]) -> Finding:
    """Return the finding of a check, or one with state `unknown` if records cannot be read."""
    try:
        return await check()
    except AuthorizationException:
        return missing_privilege(subject, "`read` on the indices")
    except (ApiError, TransportError) as error:
        problem = "could not be read"
        return Finding(subject=subject, state=FindingState.UNKNOWN, problem=problem, detail=str(error.message))
