"""What handlers work with: made once with the application, by `service.app`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from service.deprecation import Users
from service.encoding.packer import Packer
from service.gathering import Gathering
from service.layers import Ledger
from service.telemetry.consumers import Consumers
from service.telemetry.loop_lag import LoopLag
from service.telemetry.traffic import Traffic

if TYPE_CHECKING:
    from cluster.connection import ConnectionSettings
    from cluster.control import Mark
    from cluster.pulse import Pulse
    from mappings.resource import Resource
    from service.addresses import Network
    from service.admission import Admission
    from service.directory import Directory
    from service.elastic import Engine
    from service.feed.news import News
    from service.freshness import Kept
    from service.keys.ring import KeyRing
    from service.limits.failures import Failures
    from service.limits.limiter import Limiter
    from service.reso.sequence import Ledger as Events
    from service.settings import ServiceSettings


@dataclass(frozen=True)
class Services:
    """What handlers work with; opened and closed with the application."""

    engine: Engine
    keys: KeyRing
    admission: Admission
    directory: Kept[Directory]
    marks: dict[Resource, Kept[Mark | None]]
    events: Kept[Events]
    news: News
    connection: ConnectionSettings
    settings: ServiceSettings
    limiter: Limiter
    failures: Failures
    trusted: tuple[Network, ...]
    pulses: tuple[Pulse, ...]
    packer: Packer = field(default_factory=Packer)
    gathering: Gathering = field(default_factory=Gathering)
    ledger: Ledger = field(default_factory=Ledger)
    users_of_deprecated: Users = field(default_factory=Users)
    traffic: Traffic = field(default_factory=Traffic)
    consumers: Consumers = field(default_factory=Consumers)
    loop_lag: LoopLag = field(default_factory=LoopLag)
