"""The services that handlers use, built once per application by `service.app`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from aiohttp import web

from cluster.connection import ConnectionSettings
from cluster.control_index import Mark
from mappings.resource import Resource
from service.http.requests import RequestAdapter
from service.http.responses import CompressionCache
from service.http.send_monitor import SendMonitor
from service.keys.ring import KeyRing
from service.limits.admission import AdmissionControl
from service.limits.rates import AuthFailureLimiter, KeyLimiter
from service.scope import CompanyDirectory
from service.search.cached_value import CachedValue
from service.search.engine import SearchEngine
from service.search.placement import LiveIndex
from service.settings import ServiceSettings
from service.telemetry.observation import Totals
from service.token import TokenVault

State = TypeVar("State")


class Limits(NamedTuple):
    """What may refuse a request because of others: slots, rates of keys, invalid keys, and unread responses."""

    admission: AdmissionControl
    rates: KeyLimiter
    auth_failures: AuthFailureLimiter
    unread: SendMonitor


@dataclass(frozen=True)
class Services:
    """What the contract needs, opened and closed with the application; `of` has the state of capabilities."""

    connection: ConnectionSettings
    settings: ServiceSettings
    engine: SearchEngine
    keys: KeyRing
    limits: Limits
    directory: CachedValue[CompanyDirectory]
    indices: Mapping[Resource, LiveIndex]
    tokens: TokenVault
    totals: Totals = field(default_factory=Totals)
    state: dict[type, Any] = field(
        default_factory=lambda: {RequestAdapter: RequestAdapter(), CompressionCache: CompressionCache()}
    )

    @cached_property
    def marks(self) -> dict[Resource, CachedValue[Mark | None]]:
        return {resource: index.mark for resource, index in self.indices.items()}

    def provide(self, kind: type[State], value: State) -> None:
        """Let handlers find a value by its type, once, while the application starts."""
        self.state[kind] = value

    def of(self, kind: type[State]) -> State:
        """Return the value of a type; raise KeyError if none was provided."""
        value: State = self.state[kind]
        return value

    def find(self, kind: type[State]) -> State | None:
        """Return the value of a type, None if none was provided."""
        return self.state.get(kind)


SERVICES = web.AppKey("services", Services)
