"""Checks whether the data behind an alias are those that the indexer's mark describes (decision 18)."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark, mark_id
from cluster.index_identity import index_identity, is_another
from mappings import RESOURCES
from mappings.resource import Resource
from service.health.checks import Finding, FindingState, StatusReader, get_within_timeout

Facts = Mapping[str, Any]  # aliases, mappings and flat settings of an index, as returned by Elasticsearch


async def read_marks(engine: StatusReader, connection: ConnectionSettings) -> dict[str, Mark]:
    """Return the marks by alias; raise ApiError. A mark that is missing or not readable is omitted.

    Read them before the indices are listed: an index that is swapped in meanwhile names the one that it succeeds.
    """
    aliases = [*map(connection.alias, RESOURCES)]
    paths = (f"/{connection.control_index}/_doc/{mark_id(alias)}" for alias in aliases)
    responses = await asyncio.gather(*(get_within_timeout(engine, path) for path in paths))
    read = {alias: _mark(body) for alias, (status, body) in zip(aliases, responses, strict=True) if status == 200}
    return {alias: mark for alias, mark in read.items() if mark is not None}


def _mark(document: Mapping[str, Any]) -> Mark | None:
    try:
        return msgspec.convert(document["_source"], Mark)
    except msgspec.ValidationError:
        return None


def replacement(mark: Mark, index: str, facts: Facts, control: Facts) -> str | None:
    """Return a sentence for operators if an index, or the control index, is not the one that a mark describes."""
    if is_another(mark.control, index_identity(control["settings"])):
        return "The control index was restored or replaced since the last run."
    succeeds = facts["mappings"].get("_meta", {}).get("succeeds")
    if is_another(mark.index, index_identity(facts["settings"])) and succeeds != mark.index:
        return f"{index} was restored or replaced since the last run, which published {mark.generation}."
    return None


def replaced_finding(resource: Resource, detail: str) -> Finding:
    """Return the finding: records are served, changes, snapshots and digests are refused."""
    return Finding(
        subject=resource.alias,
        state=FindingState.WARNING,
        problem="its data were restored or replaced, so changes are refused",
        detail=detail,
        remedy="`brokerage index restored` lets consumers start again from what is there.",
        is_replaced=True,
    )


def replaced_aliases(findings: Iterable[Finding], connection: ConnectionSettings) -> frozenset[str]:
    """Return the aliases of the resources with such a finding."""
    subjects = {finding.subject for finding in findings if finding.is_replaced}
    return frozenset(connection.alias(resource) for resource in RESOURCES if resource.alias in subjects)
