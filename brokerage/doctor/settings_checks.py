"""The settings checks of `brokerage doctor`: unusable values, unknown variables, contradictions."""

from collections.abc import Iterator, Mapping
from dataclasses import fields

from brokerage.settings_types import SETTINGS_TYPES
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError, load_settings, unknown_settings
from service.health.checks import Finding, FindingState
from service.settings import ServiceSettings

SETTINGS_SUBJECT = "settings"
_PREFIX = "BROKERAGE_"
_FILE = "_FILE"
# Searches time out this much earlier than requests (`service.search.engine`).
_SHORTEST_DEADLINE_SECONDS = 1.0


def settings_findings(environ: Mapping[str, str]) -> list[Finding]:
    """Check the environment. Unless a finding is fatal, the settings of connection and service can be loaded."""
    problems = [*_unusable(environ)] or [*_conflicts(load_settings(ServiceSettings, environ))]
    problems += _unknown_variables(environ)
    return problems or [Finding(subject=SETTINGS_SUBJECT, detail=f"{len(_given(environ))} set")]


def _unusable(environ: Mapping[str, str]) -> Iterator[Finding]:
    for kind in SETTINGS_TYPES:
        try:
            values: object = load_settings(kind, environ)
            if isinstance(values, ConnectionSettings):
                values.require_url()
        except SettingError as error:
            yield _finding(FindingState.WRONG, "invalid or missing value", str(error))


def _given(environ: Mapping[str, str]) -> list[str]:
    return sorted(name for name in environ if name.startswith(_PREFIX) or name.removesuffix(_FILE) in _known())


def _known() -> set[str]:
    return {declared.metadata["variable"] for kind in SETTINGS_TYPES for declared in fields(kind)}


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[Finding]:
    for name, near in unknown_settings(environ, SETTINGS_TYPES).items():
        remedy = f"Did you mean {near}?" if near else "`brokerage settings` lists all of them."
        yield _finding(FindingState.WRONG, "unknown variable", f"{name} is not a setting: no command starts.", remedy)


def _conflicts(service: ServiceSettings) -> Iterator[Finding]:
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
        "BROKERAGE_METRICS_HOST is set without BROKERAGE_METRICS_PORT: there are neither metrics nor a console.": (
            service.metrics_port == 0 and service.metrics_host != ServiceSettings.metrics_host
        ),
        "BROKERAGE_WORKERS is above 1 without BROKERAGE_REDIS_URL: a key gets its rate once per worker.": (
            service.workers > 1 and not service.redis_url
        ),
    }
    for sentence, is_so in conflicts.items():
        if is_so:
            yield _finding(FindingState.WARNING, "conflicting values", sentence, "Change one of them.")


def _finding(state: FindingState, problem: str, detail: str, remedy: str = "") -> Finding:
    return Finding(subject=SETTINGS_SUBJECT, state=state, problem=problem, detail=detail, remedy=remedy)
