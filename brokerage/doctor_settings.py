"""What `brokerage doctor` says of the settings: what nobody reads, and what contradicts itself."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from brokerage.kinds import KINDS
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError, read, strangers
from service.settings import ServiceSettings
from service.soundness import Finding, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SETTINGS = "settings"
_OURS = "BROKERAGE_"
_FILE = "_FILE"
# What the engine gives up earlier than the service (`service.elastic`): with less nothing can be searched in time.
_SHORTEST_DEADLINE_SECONDS = 1.0


def settings_findings(environ: Mapping[str, str]) -> list[Finding]:
    """Look at the environment; the settings of the connection and of the service can be read unless one is fatal."""
    found = [*_unusable(environ)] or [*_contradictions(read(ServiceSettings, environ))]
    found = [*found, *_unread(environ)]
    return found or [Finding(subject=SETTINGS, detail=f"{len(_given(environ))} given")]


def _unusable(environ: Mapping[str, str]) -> Iterator[Finding]:
    for kind in KINDS:
        try:
            values = read(kind, environ)
            if isinstance(values, ConnectionSettings):
                values.require_url()
        except SettingError as error:
            yield _finding(State.WRONG, "a value cannot be used or is missing", str(error))


def _given(environ: Mapping[str, str]) -> list[str]:
    return sorted(name for name in environ if name.startswith(_OURS) or name.removesuffix(_FILE) in _known())


def _known() -> set[str]:
    return {declared.metadata["variable"] for kind in KINDS for declared in fields(kind)}


def _unread(environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, near in strangers(environ, KINDS).items():
        remedy = f"Did you mean {near}?" if near else "`brokerage settings` lists all there are."
        yield _finding(State.WRONG, "a variable is not known", f"Nothing reads {name}: no command starts.", remedy)


def _contradictions(service: ServiceSettings) -> Iterator[Finding]:
    last_metrics = service.metrics_port + service.workers - 1
    told = {
        "BROKERAGE_DEADLINE_SECONDS is below 1: no search can end in time.": (
            service.deadline_seconds < _SHORTEST_DEADLINE_SECONDS
        ),
        "BROKERAGE_DRAIN_SECONDS is above BROKERAGE_DEADLINE_SECONDS: no request lasts that long.": (
            service.drain_seconds > service.deadline_seconds
        ),
        "BROKERAGE_FRESH_SECONDS is not below BROKERAGE_STALE_SECONDS: requests wait for what is kept.": (
            service.fresh_seconds >= service.stale_seconds
        ),
        "BROKERAGE_PORT is one of those that BROKERAGE_METRICS_PORT and BROKERAGE_WORKERS take.": (
            service.metrics_port != 0 and service.metrics_port <= service.port <= last_metrics
        ),
        "BROKERAGE_WORKERS is above 1 without BROKERAGE_REDIS_URL: a key may send its rate to each worker.": (
            service.workers > 1 and not service.redis_url
        ),
    }
    for sentence, is_so in told.items():
        if is_so:
            yield _finding(State.WARNING, "two values do not fit", sentence, "Change one of them.")


def _finding(state: State, problem: str, detail: str, remedy: str = "") -> Finding:
    return Finding(subject=SETTINGS, state=state, problem=problem, detail=detail, remedy=remedy)
