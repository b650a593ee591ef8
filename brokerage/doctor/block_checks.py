"""Blocks of live indices against writes as `brokerage doctor` finds them: left by a killed rebuild, or set by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mappings import RESOURCES
from mappings.live_block import BLOCK_NOTE, BLOCK_SETTING
from service.health.checks import Finding, FindingState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.connection import ConnectionSettings
    from service.health.index_checks import IndexInventory


def block_findings(indices: IndexInventory, connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield a warning for each live index that refuses writes."""
    for resource in RESOURCES:
        for index, facts in (indices.by_name[connection.alias(resource)] or {}).items():
            if facts["settings"].get(BLOCK_SETTING) == "true":
                copy = facts["mappings"].get("_meta", {}).get(BLOCK_NOTE)
                yield _finding(resource.alias, index, copy)


def _finding(subject: str, index: str, copy: str | None) -> Finding:
    if copy:
        detail = f"{index} is being copied to {copy}, or the rebuild that copied it was killed."
        remedy = "If no rebuild runs, the next update or rebuild lifts the block: run either."
    else:
        detail = f"{BLOCK_SETTING} of {index} is true, and the indexer did not set it."
        remedy = f'`PUT {index}/_settings` with {{"{BLOCK_SETTING}": null}} lifts it.'
    problem = "its index refuses updates"
    return Finding(subject=subject, state=FindingState.WARNING, problem=problem, detail=detail, remedy=remedy)
