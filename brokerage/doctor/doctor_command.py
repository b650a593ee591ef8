"""`brokerage doctor`: check settings, Redis, published files, Elasticsearch, indices and keys."""

import asyncio
import os
import sys
from dataclasses import asdict, replace

import orjson
import rich_click as click

from brokerage.doctor.audit_check import audit_finding
from brokerage.doctor.block_checks import block_findings
from brokerage.doctor.cluster_checks import keys_finding, node_findings, token_finding
from brokerage.doctor.exports_check import exports_finding
from brokerage.doctor.findings_table import show_findings
from brokerage.doctor.privilege_checks import USER, user_findings
from brokerage.doctor.record_checks import identifier_finding
from brokerage.doctor.redis_check import redis_finding
from brokerage.doctor.settings_checks import settings_findings
from brokerage.doctor.shard_checks import shard_findings
from brokerage.doctor.time_checks import time_findings
from brokerage.doctor.tls_checks import speaks_tls, tls_finding
from brokerage.exit_codes import ExitCode
from brokerage.help_epilogs import epilog
from brokerage.output import echo
from cluster.connection import ConnectionSettings, connect
from cluster.http.reading_node import ReadingNode
from cluster.settings import load_settings
from indexer.settings import IndexerSettings
from mappings import RESOURCES
from service.app import build_services
from service.errors import ApiError, NotElasticsearch
from service.health.checks import (
    KEYS_SUBJECT,
    Finding,
    FindingState,
    IndexInventory,
    cluster_findings,
    index_findings,
    read_inventory,
    read_marks,
)
from service.health.monitor import unreachable_finding
from service.search.engine import SearchEngine
from service.settings import ServiceSettings

_TIMEOUT_SECONDS = 5.0
_REMEDY = "Is ELASTICSEARCH_URL right, and are the nodes up?"
_VERIFIED = "See docs/elasticsearch-rights.md for how certificates are verified."
_SPEAKS_TLS = "It speaks TLS: use https:// in ELASTICSEARCH_URL."


@click.command(
    epilog=epilog(
        "brokerage doctor",
        "brokerage doctor --json",
        exits="0 no errors (warnings are possible), 1 errors found, 2 usage error, 3 Elasticsearch unavailable",
    )
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of all findings.")
def doctor(*, as_json: bool) -> None:
    """Check settings, Redis, Elasticsearch, indices and keys, with a remedy for each problem."""
    findings = settings_findings(os.environ)
    is_away = False
    if not any(finding.is_fatal for finding in findings):
        of_others, is_away = asyncio.run(_check_all(load_settings(ServiceSettings, os.environ)))
        findings += of_others
    if as_json:
        echo(orjson.dumps([_as_json(finding) for finding in findings]).decode())
    else:
        show_findings(findings)
    sys.exit(ExitCode.UNAVAILABLE if is_away else ExitCode(any(finding.is_fatal for finding in findings)))


def _as_json(finding: Finding) -> dict[str, str]:
    """Return the members that are texts, which say what the others do."""
    return {name: value for name, value in asdict(finding).items() if isinstance(value, str)}


async def _check_all(settings: ServiceSettings) -> tuple[list[Finding], bool]:
    """Return the findings on Redis, published files and the cluster, and whether the cluster is unavailable."""
    of_cluster, is_away = await _cluster(load_settings(ConnectionSettings, os.environ), settings)
    return [await redis_finding(settings), await exports_finding(settings), *of_cluster], is_away


async def _cluster(connection: ConnectionSettings, settings: ServiceSettings) -> tuple[list[Finding], bool]:
    async with connect(connection, connections=4, timeout=_TIMEOUT_SECONDS, node_class=ReadingNode) as client:
        of_user = await user_findings(client, connection)
        if any(finding.is_fatal and finding.subject == USER for finding in of_user):
            return [await tls_finding(connection), *of_user], False
        engine = build_services(client, settings, connection).engine
        try:
            marks = await read_marks(engine, connection)
            indices = replace(await read_inventory(engine, connection), marks=marks)
        except ApiError as failure:
            return [await _unreachable(failure, connection)], not isinstance(failure, NotElasticsearch)
        of_indices = [finding for finding in index_findings(indices, connection) if finding.subject != KEYS_SUBJECT]
        if all(found == {} for found in indices.by_name.values()):
            of_indices = [_no_indices(connection)]
        of_indices += block_findings(indices, connection)
        of_indices.append(await audit_finding(client, engine, connection, settings.audit_days))
        of_cluster = [*await cluster_findings(engine), await tls_finding(connection), *of_user]
        of_keys = [await keys_finding(client, connection), *await _token_findings(engine, indices, connection)]
        live = [alias for alias, found in indices.by_name.items() if found]
        of_records = [
            *await time_findings(client, connection, marks, live),
            await identifier_finding(client, connection),
        ]
        loaded = [alias for alias in map(connection.alias, RESOURCES) if indices.by_name[alias]]
        of_shards = await shard_findings(engine, loaded, load_settings(IndexerSettings, os.environ).shard_gigabytes)
        of_nodes = [*await node_findings(engine, indices), *of_shards]
        return [*of_cluster, *of_indices, *of_keys, *of_nodes, *of_records], False


async def _token_findings(
    engine: SearchEngine, indices: IndexInventory, connection: ConnectionSettings
) -> list[Finding]:
    """Return the finding on the keys of tokens, none without the index that has them: that is a finding of its own."""
    return [await token_finding(engine, connection)] if indices.by_name[connection.control_index] else []


async def _unreachable(failure: ApiError, connection: ConnectionSettings) -> Finding:
    finding = unreachable_finding(failure)
    if finding.detail.startswith("TlsError"):
        return replace(finding, remedy=_VERIFIED)
    return replace(finding, remedy=_SPEAKS_TLS if await speaks_tls(connection) else _REMEDY)


def _no_indices(connection: ConnectionSettings) -> Finding:
    return Finding(
        subject="indices",
        state=FindingState.WRONG,
        problem="none found",
        detail=f"No index of the product begins with {connection.prefix!r}." if connection.prefix else "",
        remedy="Is BROKERAGE_INDEX_PREFIX right? Build all indices with `brokerage index reindex SOURCE`.",
    )
