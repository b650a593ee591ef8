"""The services that handlers use, built once per application by `service.app`."""

from dataclasses import dataclass, field

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark
from cluster.http.node_health import NodeHealth
from mappings.resource import Resource
from service.audit.reads import Audit
from service.exports.publications import Publications
from service.feed.change_notifier import ChangeNotifier
from service.feed.encoded_page import ChangesPage
from service.feed.token import TokenVault
from service.http.compression import CompressionCache
from service.http.requests import IpNetwork
from service.http.send_monitor import SendMonitor
from service.keys.ring import KeyRing
from service.limits.addresses import AuthFailureLimiter
from service.limits.admission import AdmissionControl
from service.limits.rates import KeyLimiter
from service.reso.entity_events.event_ledger import EventLedger
from service.scope import CompanyDirectory
from service.search.cached_value import CachedValue
from service.search.engine import SearchEngine
from service.search.shared_pages import SharedPages
from service.search.sharing import BatchLoader
from service.settings import ServiceSettings
from service.telemetry.feed_consumers import ConsumerRegistry
from service.telemetry.observation import LoopLag, TimingTotals, TrafficTotals


@dataclass(frozen=True)
class Services:
    """The services that handlers use, opened and closed with the application."""

    engine: SearchEngine
    keys: KeyRing
    admission: AdmissionControl
    directory: CachedValue[CompanyDirectory]
    marks: dict[Resource, CachedValue[Mark | None]]
    events: CachedValue[EventLedger]
    news: ChangeNotifier
    tokens: TokenVault
    connection: ConnectionSettings
    settings: ServiceSettings
    limiter: KeyLimiter
    auth_failures: AuthFailureLimiter
    trusted_proxies: tuple[IpNetwork, ...]
    pulses: tuple[NodeHealth, ...]
    sends: SendMonitor
    publications: Publications | None
    audit: Audit = field(default_factory=Audit)
    compression_cache: CompressionCache = field(default_factory=CompressionCache)
    changes_pages: SharedPages[ChangesPage] = field(default_factory=SharedPages)
    batch_loader: BatchLoader = field(default_factory=BatchLoader)
    timings: TimingTotals = field(default_factory=TimingTotals)
    traffic: TrafficTotals = field(default_factory=TrafficTotals)
    consumers: ConsumerRegistry = field(default_factory=ConsumerRegistry)
    loop_lag: LoopLag = field(default_factory=LoopLag)
