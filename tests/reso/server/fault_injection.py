"""Which fault a request meets: the ones that a test asks for first, then by chance."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from tests.reso.server.server_settings import ServerFault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.reso.server.server_settings import ServerSettings

# Nothing else can show them.
OF_COLLECTIONS = frozenset({ServerFault.EMPTY, ServerFault.STOPS_SHORT, ServerFault.SHORT_PAGE})


@dataclass
class _PlannedFault:
    fault: ServerFault
    times: int
    resource: str | None


class FaultInjector:
    """`rates` may be replaced at any time."""

    def __init__(self, settings: ServerSettings) -> None:
        """Begin with the rates of the settings."""
        self.rates: Mapping[ServerFault, float] = settings.faults
        self._most = settings.most_faults_in_a_row
        self._chance = Random(f"faults {settings.seed}")  # noqa: S311 - faults guard nothing
        self._orders: list[_PlannedFault] = []
        self._in_a_row = 0
        self._lock = threading.Lock()

    def plan(self, fault: ServerFault, times: int = 1, resource: str | None = None) -> None:
        """Let the next requests meet a fault, of one resource (`Media`, `$metadata`, `oauth`) or whichever comes."""
        with self._lock:
            self._orders.append(_PlannedFault(fault, times, resource))

    @property
    def pending(self) -> int:
        """How many ordered faults have not happened yet."""
        with self._lock:
            return sum(order.times for order in self._orders)

    def next_fault(self, resource: str, *, is_collection: bool) -> ServerFault | None:
        """Return what goes wrong with a request; by chance never more than so many times in a row."""
        with self._lock:
            if (fault := self._ordered(resource, is_collection=is_collection)) is not None:
                return fault
            fault = self._by_chance() if resource != "oauth" else None
            if fault is None or self._in_a_row >= self._most or (fault in OF_COLLECTIONS and not is_collection):
                self._in_a_row = 0
                return None
            self._in_a_row += 1
            return fault

    def _ordered(self, resource: str, *, is_collection: bool) -> ServerFault | None:
        for order in self._orders:
            if order.resource in {None, resource} and (is_collection or order.fault not in OF_COLLECTIONS):
                order.times -= 1
                self._orders = [order for order in self._orders if order.times]
                return order.fault
        return None

    def _by_chance(self) -> ServerFault | None:
        drawn = self._chance.random()
        for fault, rate in self.rates.items():
            drawn -= rate
            if drawn < 0:
                return fault
        return None
