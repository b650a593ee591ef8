"""`brokerage doctor`: whether settings, Redis, Elasticsearch and indices are such that the service can serve."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import asdict, replace

import orjson
import rich_click as click

from brokerage.doctor_cluster import keys_finding, node_findings
from brokerage.doctor_limits import redis_finding
from brokerage.doctor_rights import USER, user_findings
from brokerage.doctor_screen import show_findings
from brokerage.doctor_settings import settings_findings
from brokerage.doctor_tls import speaks_tls, tls_finding
from brokerage.examples import ending
from brokerage.failures import Exit
from cluster.connection import ConnectionSettings, connect
from cluster.node import ReadingNode
from cluster.settings import read
from service.app import compose
from service.errors import ApiError, NotElasticsearch
from service.indices import index_findings, look
from service.settings import ServiceSettings
from service.soundness import KEYS, Finding, State, cluster_findings
from service.watch import away

_TIMEOUT_SECONDS = 5.0
_REMEDY = "Is ELASTICSEARCH_URL right, and are the nodes up?"
_VERIFIED = "How certificates are verified is in docs/elasticsearch-rights.md."
_SPEAKS_TLS = "It speaks TLS: ELASTICSEARCH_URL must begin with https://."


@click.command(
    epilog=ending(
        "brokerage doctor",
        "brokerage doctor --json",
        exits="0 nothing is wrong (there may be warnings), 1 something is, 2 wrong usage, 3 Elasticsearch is away",
    )
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of all findings.")
def doctor(*, as_json: bool) -> None:
    """Check settings, Redis, Elasticsearch, indices and keys, and say how to mend what is wrong."""
    findings = settings_findings(os.environ)
    is_away = False
    if not any(finding.is_fatal for finding in findings):
        of_others, is_away = asyncio.run(_examined(read(ServiceSettings, os.environ)))
        findings += of_others
    if as_json:
        click.echo(orjson.dumps([asdict(finding) for finding in findings]).decode())
    else:
        show_findings(findings)
    sys.exit(Exit.ENGINE_AWAY if is_away else Exit(any(finding.is_fatal for finding in findings)))


async def _examined(settings: ServiceSettings) -> tuple[list[Finding], bool]:
    """Return what is found of Redis and of the cluster, and whether the cluster is away."""
    of_cluster, is_away = await _cluster(read(ConnectionSettings, os.environ), settings)
    return [await redis_finding(settings), *of_cluster], is_away


async def _cluster(connection: ConnectionSettings, settings: ServiceSettings) -> tuple[list[Finding], bool]:
    async with connect(connection, connections=4, timeout=_TIMEOUT_SECONDS, node_class=ReadingNode) as client:
        of_user = await user_findings(client, connection)
        if any(finding.is_fatal and finding.subject == USER for finding in of_user):
            return [await tls_finding(connection), *of_user], False
        engine = compose(client, settings, connection).engine
        try:
            indices = await look(engine, connection)
        except ApiError as failure:
            return [await _away(failure, connection)], not isinstance(failure, NotElasticsearch)
        of_indices = [finding for finding in index_findings(indices, connection) if finding.subject != KEYS]
        if all(found == {} for found in indices.behind.values()):
            of_indices = [_nothing(connection)]
        of_cluster = [*await cluster_findings(engine), await tls_finding(connection), *of_user]
        of_keys = await keys_finding(client, connection)
        return [*of_cluster, *of_indices, of_keys, *await node_findings(engine, indices)], False


async def _away(failure: ApiError, connection: ConnectionSettings) -> Finding:
    told = away(failure)
    if told.detail.startswith("TlsError"):
        return replace(told, remedy=_VERIFIED)
    return replace(told, remedy=_SPEAKS_TLS if await speaks_tls(connection) else _REMEDY)


def _nothing(connection: ConnectionSettings) -> Finding:
    begin = f" that begins with {connection.prefix}" if connection.prefix else ""
    return Finding(
        subject="indices",
        state=State.WRONG,
        problem="nothing is there",
        detail=f"There is no index of the product{begin}.",
        remedy="Is BROKERAGE_INDEX_PREFIX right? `brokerage index reindex SOURCE` builds all.",
    )
