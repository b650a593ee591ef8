"""What tests set within the product, such as how long it waits or what time it is, and what they count there.

Each is named here alone, so that a constant that moves changes one line.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

import pytest
from aiohttp import web
from prometheus_client import REGISTRY

from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.published_files import FileUpdater
from cluster.http.nodes import NodeConnection, NodeHealth, ReadingNode
from service.health.monitor import HealthMonitor
from service.http.send_monitor import SendMonitor
from service.search.cached_value import CacheAges
from service.search.engine import SearchEngine
from service.search.placement import ShardTable
from service.services import SERVICES

# Sends a request to Elasticsearch: its method, target, body, and time in seconds.
Attempt = Callable[..., Awaitable[tuple[int, bytes]]]

_PLACES = {
    "absent_resource_seconds": "brokerage_feed.copy_updater._ABSENT_SECONDS",
    "admission_log_seconds": "service.limits.admission._LOG_INTERVAL_SECONDS",
    "admission_time": "service.limits.admission.time",
    "audit_day_milliseconds": "service.audit.capability._DAY_MILLISECONDS",
    "audit_rollover": "service.audit.store._ROLLOVER",
    "audit_warned_bytes_a_day": "service.audit.capability._WARNED_BYTES_A_DAY",
    "audit_write_timeout": "service.audit.reads._WRITE_TIMEOUT_SECONDS",
    "authenticate": "service.operation.authenticate",
    "background_turn_seconds": "service.background._TURN_SECONDS",
    "cache_refresh_timeout_seconds": "service.search.cached_value._REFRESH_TIMEOUT_SECONDS",
    "cache_time": "service.search.cached_value.time",
    "changes_search": "service.changes.changes._search",
    "check_timeout": "service.health.checks._REQUEST_TIMEOUT_SECONDS",
    "cluster_first_pause_seconds": "cluster.client._INITIAL_SECONDS",
    "cluster_longest_pause_seconds": "cluster.client._MAX_SECONDS",
    "cluster_pauses_seconds": "cluster.client._PAUSES_SECONDS",
    "cluster_warnings": "cluster.client._warnings",
    "compaction_load_poll_seconds": "indexer.maintenance.compaction._LOAD_POLL_SECONDS",
    "compaction_longest_seconds": "indexer.maintenance.compaction._LONGEST_SECONDS",
    "compaction_longest_wait_seconds": "indexer.maintenance.compaction._LONGEST_WAIT_SECONDS",
    "compaction_most_load": "indexer.maintenance.compaction.MAX_LOAD",
    "compaction_retained": "indexer.maintenance.compaction._retained",
    "compatible_form_seconds": "service.compatible._FORM_SECONDS",
    "compatible_waiting_forms": "service.compatible._WAITING_FORMS",
    "console_ages": "service.console.summaries._AGES",
    "console_most_entries": "service.console.consumers._MAX_ENTRIES",
    "console_slow_loop_seconds": "service.console.overview.MAX_LOOP_LAG_SECONDS",
    "console_slow_p99_seconds": "service.console.overview.MAX_P99_SECONDS",
    "console_timeout_seconds": "service.console.summaries._TIMEOUT_SECONDS",
    "copy_add_snapshot_records": "brokerage_feed.sqlite_copy.SqliteCopy.add_snapshot_records",
    "delivery_longest_pause_seconds": "service.deliver.courier._LONGEST_PAUSE_SECONDS",
    "detected_bytes": "indexer.source.tables.rows._DETECTED_BYTES",
    "digest_most_records": "service.changes.digest.MAX_RECORDS",
    "document_set_page": "service.search.shared_state._PAGE_SIZE",
    "document_set_reread": "service.search.shared_state._REREAD",
    "doctor_unpublished_seconds": "brokerage.doctor.cluster_checks._UNPUBLISHED_SECONDS",
    "encode_response": "service.operation.encode_response",
    "engine_search": "service.search.engine.SearchEngine._search",
    "export_call_bytes": "service.exports.files._CALL_BYTES",
    "export_send": "service.exports.operations._send",
    "feed_sleep": "brokerage_feed.http_client.sleep",
    "fetched_documents": "indexer.scan.DOCUMENTS_PER_FETCH",
    "fewest_deleted": "cluster.index_state.FEWEST_DELETED",
    "head_timeout": "service.http.connection._HEAD_TIMEOUT_SECONDS",
    "key_renewal_seconds": "service.keys.ring._RENEWAL_INTERVAL_SECONDS",
    "key_use_write_timeout": "service.keys.ring._WRITE_TIMEOUT_SECONDS",
    "key_uses_written_at_once": "service.keys.ring._WRITTEN_AT_ONCE",
    "keys_page": "service.keys.store._PAGE_SIZE",
    "largest_feed_body_bytes": "brokerage_feed.http_client.MAX_BODY_BYTES",
    "largest_feed_line_bytes": "brokerage_feed.http_client.MAX_LINE_BYTES",
    "largest_response_bytes": "cluster.http.responses.MAX_RESPONSE_BYTES",
    "largest_workbook_bytes": "indexer.source.tables.workbooks._MAX_BYTES",
    "ledger_time": "indexer.reso.event_ledger.now_microseconds",
    "loader_command": "indexer.load.processes.COMMAND",
    "lock_heartbeat_seconds": "indexer.lock.HEARTBEAT_SECONDS",
    "lock_heartbeat_timeout_seconds": "indexer.lock._HEARTBEAT_TIMEOUT_SECONDS",
    "lock_holder_timeout_seconds": "indexer.lock.HOLDER_TIMEOUT_SECONDS",
    "lock_notice_interval_seconds": "indexer.lock._NOTICE_INTERVAL_SECONDS",
    "lock_poll_seconds": "indexer.lock._POLL_SECONDS",
    "lock_request_ttl_seconds": "indexer.lock._REQUEST_TTL_SECONDS",
    "lock_time": "indexer.lock.time",
    "look_up_rows": "indexer.scan.ROWS_PER_LOOKUP",
    "monitor_time": "service.health.monitor.time",
    "most_carried_names": "indexer.names.MAX_CARRIED",
    "most_deleted": "cluster.index_state.MAX_DELETED",
    "most_publications": "cluster.control_index.MAX_PUBLICATIONS",
    "most_segments": "cluster.index_state.MAX_SEGMENTS",
    "most_terms": "mappings.stored_document.MAX_TERMS",
    "node_connect_seconds": "cluster.http.nodes._CONNECT_SECONDS",
    "node_keepalive_seconds": "cluster.http.nodes._KEEPALIVE_SECONDS",
    "node_tick_seconds": "cluster.http.nodes._TICK_SECONDS",
    "observation_time": "service.telemetry.observation.time",
    "odata_few_rows": "service.reso.sets.entity_rows._FEW_ROWS",
    "odata_first_delay_seconds": "indexer.reso.client.odata._INITIAL_DELAY_SECONDS",
    "odata_keys_of_a_batch": "service.reso.sets.entity_rows._KEYS_OF_A_BATCH",
    "odata_limits_time": "indexer.reso.client.limits.time",
    "odata_looked_up_key_cost": "service.reso.cost._LOOKED_UP_KEY",
    "odata_most_cost": "service.reso.cost.MAX_FILTER_COST",
    "odata_named_at_once": "service.reso.sets.skipped_rows._NAMED_AT_ONCE",
    "odata_reported_seconds": "indexer.reso.client.limits._REPORTED_SECONDS",
    "odata_too_many_seconds": "indexer.reso.client.reso_client._TOO_MANY_SECONDS",
    "parquet_group_bytes": "brokerage_feed.parquet_tables.GROUP_BYTES",
    "publication_finish": "service.publishing.files.PublicationFiles.finish",
    "publications_per_archive": "cluster.control_index.PUBLICATIONS_PER_ARCHIVE",
    "published_batch_records": "brokerage_feed.published_files.BATCH_RECORDS",
    "published_changes_write": "service.publishing.publisher.write_changes",
    "published_file_bytes": "service.publishing.files.FILE_BYTES",
    "published_identifier_bytes": "service.exports.publications._MAX_IDENTIFIER_BYTES",
    "published_page": "service.publishing.files.MAX_PAGE_SIZE",
    "published_read_bytes": "service.exports.publications._MAX_READ_BYTES",
    "publishing_resume_seconds": "service.publishing.target.RESUME_SECONDS",
    "publishing_retry_seconds": "service.publishing.publisher._RETRY_SECONDS",
    "query_time": "service.search.query.time",
    "rates_time": "service.limits.rates.time",
    "readiness_timeout": "service.health.monitor._READ_TIMEOUT_SECONDS",
    "redis_connect_timeout": "service.redis.buckets._CONNECT_TIMEOUT_SECONDS",
    "redis_response_timeout": "service.redis.buckets._RESPONSE_TIMEOUT_SECONDS",
    "redis_send": "service.redis.buckets.RedisBuckets._send",
    "refusals_longest_seconds": "service.limits.rates._LONGEST_SECONDS",
    "refusals_most_waiting": "service.limits.rates._MOST_WAITING",
    "retry_backoff_seconds": "service.search.engine._BACKOFF_SECONDS",
    "scan_first_page": "indexer.scan._FIRST_PAGE",
    "scan_page_bytes": "indexer.scan.BYTES_PER_PAGE",
    "scan_page_documents": "indexer.scan.DOCUMENTS_PER_PAGE",
    "scan_page_rows": "indexer.scan.ROWS_PER_PAGE",
    "send_time": "service.http.send_monitor.time",
    "shard_sample_lines": "indexer.generations.candidate._SAMPLE_SIZE",
    "slow_read_seconds": "service.search.engine._SLOW_READ_SECONDS",
    "snapshot_digest": "service.changes.snapshot.PointInTime.digest",
    "snapshot_page": "service.changes.snapshot.PAGE_SIZE",
    "snapshot_read": "service.changes.snapshot.PointInTime._page",
    "snapshot_renewal_seconds": "service.changes.snapshot._RENEWAL_SECONDS",
    "snapshot_search": "service.changes.snapshot.PointInTime._search",
    "store_expiry_seconds": "service.publishing.store_target.EXPIRY_SECONDS",
    "store_patience": "service.exports.stores.QUICK",
    "store_poll_seconds": "service.publishing.store_target._POLL_SECONDS",
    "store_requests": "service.exports.stores._REQUESTS",
    "sync_feed_take": "brokerage_feed.sync_feed._take",
    "verification_look_up_records": "indexer.verify.verification._RECORDS_PER_LOOKUP",
    "verification_most_named": "indexer.verify.verification.MAX_NAMED",
    "verification_most_records": "indexer.verify.verification.MAX_RECORDS_IN_MEMORY",
}


class Internals:
    """Sets internals; all are undone at the end of the test."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def __call__(self, **values: object) -> None:
        for name, value in values.items():
            self._patch.setattr(_PLACES[name], value)

    def present(self, name: str) -> Any:
        """Return what is there now."""
        return resolve_name(_PLACES[name])


@contextmanager
def internals_set(**values: object) -> Iterator[None]:
    """Set some for a while: an example of hypothesis, for which fixtures last too long."""
    with pytest.MonkeyPatch.context() as patch:
        Internals(patch)(**values)
        yield


@dataclass
class Clock:
    """A clock, in seconds, that only a test moves; with a step, each look at it does as well."""

    now: float = 0.0
    step: float = 0.0

    def monotonic(self) -> float:
        self.now += self.step
        return self.now

    time = perf_counter = monotonic

    def monotonic_ns(self) -> int:
        return round(self.monotonic() * 1e9)


def metric(name: str, **labels: str) -> float:
    """Return the value of a metric of this process."""
    return REGISTRY.get_sample_value(name, labels) or 0.0


def running_searches(engine: SearchEngine) -> dict[Any, Any]:
    """Return the searches that are running, and may be shared, by what they ask."""
    return cast("Any", engine)._shared_searches._tasks  # type: ignore[no-any-return]


def known_shards(table: ShardTable) -> dict[str, Any]:
    """Return what is known of the shards of each alias."""
    return cast("Any", table)._served  # type: ignore[no-any-return]


def keep_for(ages: CacheAges, *cached: Any) -> None:
    """Let values that are read from Elasticsearch have other ages."""
    for value in cached:
        value._ages = ages


def sending_connections(monitor: SendMonitor) -> set[Any]:
    """Return the connections whose responses are not read to the end."""
    return cast("Any", monitor)._connections  # type: ignore[no-any-return]


def idle_connections(node: ReadingNode) -> list[Any]:
    """Return the connections to a node that wait for their next request; the latest is last."""
    return node._idle


def count_reads(monitor: HealthMonitor) -> list[None]:
    """Return a list that gets an entry for each probe that reads what the first request needs."""
    reading, read = list[None](), monitor._read_check

    async def counted() -> None:
        reading.append(None)
        await read()

    monitor._read_check = counted
    return reading


def send_by(engine: SearchEngine, send: Attempt) -> Attempt:
    """Let each request to Elasticsearch be sent by a function; return the one that sent them before."""
    before, engine._attempt = engine._attempt, send  # type: ignore[assignment, method-assign]
    return before


def once_settled(connection: NodeConnection, act: Callable[[], object]) -> None:
    """Do something when a response is complete, before the request that waits for it goes on."""
    settle = connection._settle

    def settle_and_act(error: Exception | None) -> None:
        settle(error)
        act()

    connection._settle = settle_and_act  # type: ignore[method-assign]


def let_be_silent(health: NodeHealth) -> None:
    """Let a node have left its last probes unanswered."""
    health.is_healthy, health._unanswered = False, 2


async def open_connection(node: ReadingNode) -> NodeConnection:
    """Return a new connection to a node that it has not used yet."""
    return await node._connect()


def read_from_files(pull: CopyUpdater, folder: Path) -> None:
    """Let a pull take published files as long as it may."""
    pull._files = FileUpdater(pull.feed, pull.copy, folder)


def shared_searches(app: web.Application, alias: str = "") -> list[int]:
    """Return how many requests wait for each running search, of one alias or of all, in ascending order."""
    tasks = running_searches(app[SERVICES].engine)
    return sorted(task.waiters for (of, *_), task in tasks.items() if alias in {"", of})


def batched_reads(app: web.Application) -> list[int]:
    """Return how many requests wait for each group of reads by identifier."""
    queues: Any = app[SERVICES].engine.batches._queues
    return [queue.current.waiters if queue.current else 0 for queue in queues.values()]
