"""`brokerage doctor`: whether settings, Elasticsearch and indices are such that the service can serve."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import asdict, replace

import orjson
import rich_click as click

from brokerage.doctor_cluster import keys_finding, node_findings
from brokerage.doctor_screen import show_findings
from brokerage.doctor_settings import settings_findings
from brokerage.failures import Exit
from cluster.connection import ConnectionSettings, connect
from cluster.node import ReadingNode
from cluster.settings import read
from service.app import compose
from service.errors import ApiError, NotElasticsearch
from service.indices import index_findings, look
from service.settings import ServiceSettings
from service.soundness import KEYS, Finding, cluster_findings
from service.watch import away

_TIMEOUT_SECONDS = 5.0
_REMEDY = "Is ELASTICSEARCH_URL right, and are the nodes up?"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of all findings.")
def doctor(*, as_json: bool) -> None:
    """Check settings, Elasticsearch, indices and keys, and say how to mend what is wrong.

    Exit codes: 0 nothing is wrong (there may be warnings), 1 something is, 3 Elasticsearch is away.
    """
    findings = settings_findings(os.environ)
    is_away = False
    if not any(finding.is_fatal for finding in findings):
        of_cluster, is_away = asyncio.run(_examined())
        findings += of_cluster
    if as_json:
        click.echo(orjson.dumps([asdict(finding) for finding in findings]).decode())
    else:
        show_findings(findings)
    sys.exit(Exit.ENGINE_AWAY if is_away else Exit(any(finding.is_fatal for finding in findings)))


async def _examined() -> tuple[list[Finding], bool]:
    """Return what is found of the cluster, and whether it is away."""
    connection, settings = read(ConnectionSettings, os.environ), read(ServiceSettings, os.environ)
    async with connect(connection, connections=4, timeout=_TIMEOUT_SECONDS, node_class=ReadingNode) as client:
        engine = compose(client, settings, connection).engine
        try:
            indices = await look(engine, connection)
        except ApiError as failure:
            return [replace(away(failure), remedy=_REMEDY)], not isinstance(failure, NotElasticsearch)
        of_indices = [finding for finding in index_findings(indices, connection) if finding.subject != KEYS]
        of_cluster = await cluster_findings(engine)
        of_keys = await keys_finding(client, connection)
        return [*of_cluster, *of_indices, of_keys, *await node_findings(engine, indices)], False
