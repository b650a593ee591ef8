"""Blocks of indices against writes as `brokerage doctor` finds them: of full disks, of a killed rebuild, set by hand.

A restored index has the blocks that it had when it was backed up.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from cluster.connection import ConnectionSettings
from cluster.write_blocks import FLOOD_BLOCK_SETTING, WRITE_BLOCKS
from mappings import RESOURCES
from mappings.index_body import BLOCK_NOTE, BLOCK_SETTING
from service.health.checks import CONTROL_SUBJECT, KEYS_SUBJECT, Finding, FindingState, IndexInventory


def block_findings(indices: IndexInventory, connection: ConnectionSettings) -> Iterator[Finding]:
    """Yield a warning for each block of an index against writes."""
    subjects = {connection.alias(resource): resource.alias for resource in RESOURCES}
    subjects |= {connection.keys_index: KEYS_SUBJECT, connection.control_index: CONTROL_SUBJECT}
    for name, subject in subjects.items():
        for index, facts in (indices.by_name[name] or {}).items():
            for setting in WRITE_BLOCKS:
                if facts["settings"].get(setting) == "true":
                    yield _finding(subject, index, setting, facts)


def _finding(subject: str, index: str, setting: str, facts: Mapping[str, Any]) -> Finding:
    copy = facts["mappings"].get("_meta", {}).get(BLOCK_NOTE) if setting == BLOCK_SETTING else None
    lift = f'`PUT {index}/_settings` with {{"{setting}": null}} lifts it.'
    if copy:
        detail = f"{index} is being copied to {copy}, or the rebuild that copied it was killed."
        remedy = "If no rebuild runs, the next update or rebuild lifts the block: run either."
    elif setting == FLOOD_BLOCK_SETTING:
        detail = f"{setting} of {index} is true: disks are full, or were when it was backed up."
        remedy = f"Free disk space: Elasticsearch lifts the block within a minute. If it does not, {lift}"
    else:
        detail = f"{setting} of {index} is true, and the indexer did not set it."
        remedy = lift
    problem = "its index refuses updates"
    return Finding(subject=subject, state=FindingState.WARNING, problem=problem, detail=detail, remedy=remedy)
