"""`brokerage doctor`: check settings, Redis, published files, Elasticsearch, indices and keys.

It prints a line for each check, and the remedy below each problem. Settings come first: unusable values, unknown
variables, contradictions.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import orjson
import rich_click as click
from elasticsearch import AsyncElasticsearch
from rich.text import Text

from brokerage.doctor.cluster_checks import (
    TROUBLES,
    block_findings,
    identifier_finding,
    keys_finding,
    node_findings,
    shard_findings,
    time_findings,
    troubles_finding,
)
from brokerage.doctor.connection_checks import (
    USER,
    speaks_tls,
    tls_finding,
    user_findings,
)
from brokerage.help import epilog
from brokerage.settings_types import settings_types, unknown_variables
from brokerage.tables import plain_table, print_table
from brokerage_feed.terminal import ExitCode, echo
from cluster.connection import ConnectionSettings, connect
from cluster.http.nodes import ReadingNode
from cluster.settings import SettingError, declared_settings, load_settings
from indexer.settings import IndexerSettings
from mappings import RESOURCES
from service.app import build_services
from service.capabilities import installed_capabilities, load_service_settings
from service.capability import Check
from service.errors import ApiError, NotElasticsearch
from service.health.checks import (
    CLUSTER_SUBJECTS,
    KEYS_SUBJECT,
    Finding,
    FindingState,
    IndexInventory,
    run_check,
    run_checks,
    warning,
    wrong,
)
from service.health.monitor import unreachable_finding
from service.redis.capability import RedisSettings
from service.services import Services
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
        of_others, is_away = asyncio.run(_check_all(load_service_settings(os.environ)))
        findings += of_others
    if as_json:
        echo(orjson.dumps([_as_json(finding) for finding in findings]))
    else:
        _show_findings(findings)
    sys.exit(ExitCode.UNAVAILABLE if is_away else ExitCode(any(finding.is_fatal for finding in findings)))


def _as_json(finding: Finding) -> dict[str, str]:
    """Return the members that are texts, which say what the others do."""
    return {name: value for name, value in asdict(finding).items() if isinstance(value, str)}


async def _check_all(settings: ServiceSettings) -> tuple[list[Finding], bool]:
    """Return all findings but those on settings, and whether the cluster is unavailable."""
    connection = load_settings(ConnectionSettings, os.environ)
    async with connect(connection, connections=4, timeout=_TIMEOUT_SECONDS, node_class=ReadingNode) as client:
        services = build_services(client, settings, connection)
        checks = [check for capability in installed_capabilities(settings.without) for check in capability.checks]
        found = await _run(services, (check for check in checks if not check.needs_elasticsearch))
        of_cluster, is_away = await _check_cluster(
            client, services, [check for check in checks if check.needs_elasticsearch]
        )
    return [*found, *of_cluster], is_away


async def _run(services: Services, checks: Iterable[Check]) -> list[Finding]:
    """Return what checks have found, one for each subject: capabilities that need the same have the same check."""
    by_subject: dict[str, Check] = {}
    for check in checks:
        by_subject.setdefault(check.subject, check)
    found = [await check.run(services) for check in by_subject.values()]
    return [finding for finding in found if finding is not None]


async def _check_cluster(
    client: AsyncElasticsearch, services: Services, checks: Sequence[Check]
) -> tuple[list[Finding], bool]:
    """Return the findings on the cluster, first those that the service itself makes, and whether it is unavailable."""
    engine, connection = services.engine, services.connection
    of_user = await user_findings(client, connection)
    if any(finding.is_fatal and finding.subject == USER for finding in of_user):
        return [await tls_finding(connection), *of_user], False
    inventories = list[IndexInventory]()
    try:
        of_service = await run_checks(engine, connection, on_inventory=inventories.append)
    except ApiError as failure:
        return [await _unreachable(failure, connection)], not isinstance(failure, NotElasticsearch)
    (indices,) = inventories
    # Whether there are keys is found below.
    of_indices = [finding for finding in of_service if finding.subject not in {*CLUSTER_SUBJECTS, KEYS_SUBJECT}]
    if all(found == {} for found in indices.by_name.values()):
        of_indices = [_no_indices(connection)]
    live = [alias for alias, found in indices.by_name.items() if found]
    loaded = [alias for alias in map(connection.alias, RESOURCES) if indices.by_name[alias]]
    indexing = load_settings(IndexerSettings, os.environ)
    return [
        *(finding for finding in of_service if finding.subject in CLUSTER_SUBJECTS),
        await tls_finding(connection),
        *of_user,
        *of_indices,
        *block_findings(indices, connection),
        *await _run(services, checks),
        await keys_finding(client, connection),
        *await node_findings(engine, indices),
        *await shard_findings(engine, loaded, indexing.shard_gigabytes),
        *await time_findings(client, connection, indices.marks, live),
        await identifier_finding(client, connection),
        await run_check(TROUBLES, partial(troubles_finding, engine, connection, indexing.trouble_hours)),
    ], False


async def _unreachable(failure: ApiError, connection: ConnectionSettings) -> Finding:
    finding = unreachable_finding(failure)
    if finding.detail.startswith("TlsError"):
        return replace(finding, remedy=_VERIFIED)
    return replace(finding, remedy=_SPEAKS_TLS if await speaks_tls(connection) else _REMEDY)


def _no_indices(connection: ConnectionSettings) -> Finding:
    detail = f"No index of the product begins with {connection.prefix!r}." if connection.prefix else ""
    remedy = "Is BROKERAGE_INDEX_PREFIX right? Build all indices with `brokerage index reindex SOURCE`."
    return wrong("indices", "none found", detail, remedy)


SETTINGS_SUBJECT = "settings"
_PREFIX = "BROKERAGE_"
_FILE = "_FILE"
# Searches time out this much earlier than requests (`service.search.engine`).
_SHORTEST_DEADLINE_SECONDS = 1.0


def settings_findings(environ: Mapping[str, str]) -> list[Finding]:
    """Check the environment. Unless a finding is fatal, the settings of connection and service can be loaded."""
    try:
        kinds = settings_types(environ)
    except SettingError as error:
        return [wrong(SETTINGS_SUBJECT, "invalid or missing value", str(error))]
    problems = [*_unusable(environ, kinds)] or [*_conflicts(load_service_settings(environ))]
    problems += _unknown_variables(environ)
    return problems or [Finding(subject=SETTINGS_SUBJECT, detail=f"{len(_given(environ, kinds))} set")]


def _unusable(environ: Mapping[str, str], kinds: Iterable[type[Any]]) -> Iterator[Finding]:
    for kind in kinds:
        try:
            values: object = load_settings(kind, environ)
            if isinstance(values, ConnectionSettings):
                values.require_url()
        except SettingError as error:
            yield wrong(SETTINGS_SUBJECT, "invalid or missing value", str(error))


def _given(environ: Mapping[str, str], kinds: Iterable[type[Any]]) -> list[str]:
    known = {declared.metadata["variable"] for kind in kinds for declared in declared_settings(kind)}
    return sorted(name for name in environ if name.startswith(_PREFIX) or name.removesuffix(_FILE) in known)


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, hint in unknown_variables(environ).items():
        yield wrong(SETTINGS_SUBJECT, "unknown variable", f"{name} is not a setting: no command starts.", hint)


def _conflicts(service: ServiceSettings) -> Iterator[Finding]:
    redis = service.find(RedisSettings)
    last_metrics = service.metrics_port + service.workers - 1
    conflicts = {
        "BROKERAGE_DEADLINE_SECONDS is below 1: no search can finish in time.": (
            service.deadline_seconds < _SHORTEST_DEADLINE_SECONDS
        ),
        "BROKERAGE_DRAIN_SECONDS exceeds BROKERAGE_DEADLINE_SECONDS: no request lasts that long.": (
            service.drain_seconds > service.deadline_seconds
        ),
        "BROKERAGE_FRESH_SECONDS is not below BROKERAGE_STALE_SECONDS: requests wait for cached values.": (
            service.fresh_seconds >= service.stale_seconds
        ),
        "BROKERAGE_PORT is one of the metrics ports, which start at BROKERAGE_METRICS_PORT, one per worker.": (
            service.metrics_port != 0 and service.metrics_port <= service.port <= last_metrics
        ),
        "BROKERAGE_METRICS_HOST is set without BROKERAGE_METRICS_PORT: nothing listens there.": (
            service.metrics_port == 0 and service.metrics_host != ServiceSettings.metrics_host
        ),
        "BROKERAGE_WORKERS is above 1 without BROKERAGE_REDIS_URL: a key gets its rate once per worker.": (
            service.workers > 1 and redis is not None and not redis.redis_url
        ),
    }
    for sentence, is_so in conflicts.items():
        if is_so:
            yield warning(SETTINGS_SUBJECT, "conflicting values", sentence, "Change one of them.")


_STYLES = {
    FindingState.OK: "green",
    FindingState.UNKNOWN: "cyan",
    FindingState.ABSENT: "cyan",
    FindingState.WARNING: "yellow",
    FindingState.WRONG: "bold red",
}


def _show_findings(findings: Iterable[Finding]) -> None:
    findings = list(findings)
    table = plain_table("state", "subject", "text", folded=["text"], show_header=False)
    for finding in findings:
        table.add_row(Text(finding.state.value, _STYLES[finding.state]), finding.subject, Text(_text_of(finding)))
        if finding.remedy:
            table.add_row("", "", Text(f"-> {finding.remedy}", "bold"))
    print_table(table)
    echo()
    echo(findings_summary(findings))


def _text_of(finding: Finding) -> str:
    return ". ".join(part for part in (finding.problem, finding.detail) if part)


def findings_summary(findings: Iterable[Finding]) -> str:
    counts = Counter(finding.state for finding in findings)
    parts = [f"{counts[state]} {state.value}" for state in reversed(FindingState) if counts[state]]
    conclusion = "The service cannot serve everything." if counts[FindingState.WRONG] else "The service can serve."
    return f"{', '.join(parts)}. {conclusion}"
