"""All settings that commands read, and the rejection of unknown variables."""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

from brokerage_feed.pull_settings import PULL_SETTINGS
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError, declared_settings, setting, unknown_settings
from embedded.artifacts import REPOSITORY_SETTING
from embedded.node_options import DEFAULT_HEAP_MB, HEAP_SETTING
from indexer.reso.settings import ResoSettings
from indexer.settings import IndexerSettings
from service.settings import ServiceSettings

PullSettings = make_dataclass(
    "PullSettings",
    [
        (
            str(declared.name),
            type(declared.default),
            setting(declared.variable, declared.default, declared.help or "", secret=declared.is_secret),
        )
        for declared in PULL_SETTINGS
    ],
    frozen=True,
    namespace={"__doc__": "The API key, retries and intervals of `brokerage pull`."},
)


@dataclass(frozen=True)
class NodeSettings:
    """Heap and download source of the embedded node, which reads its settings itself."""

    heap_mb: int = setting(HEAP_SETTING, DEFAULT_HEAP_MB, "Heap of each embedded node, in megabytes.")
    repository: str = setting(REPOSITORY_SETTING, "", "Maven repository to download the embedded node from.")


# All but those of the service's capabilities.
_CORE_TYPES = (ConnectionSettings, ServiceSettings, IndexerSettings, ResoSettings, NodeSettings, PullSettings)


def settings_types(environ: Mapping[str, str]) -> tuple[type[Any], ...]:
    """Return the classes of all settings, without those of capabilities that are left out; raise SettingError."""
    # Their modules take a quarter of a second to import, which commands without their settings do not need.
    from service.capabilities import capability_settings  # noqa: PLC0415

    connection, service, *others = _CORE_TYPES
    return (connection, service, *capability_settings(environ).values(), *others)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the prefix of settings that are none, each with a hint; raise SettingError."""
    if not unknown_settings(environ, _CORE_TYPES):
        return {}
    unknown = unknown_settings(environ, settings_types(environ))
    owners = _left_out(environ) if unknown else {}
    return {name: _hint(near, owners.get(name.removesuffix("_FILE"))) for name, near in unknown.items()}


def _left_out(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the capabilities that are left out, by the variables that only they read."""
    from service.capabilities import capability_settings  # noqa: PLC0415 - as above

    everything, installed = capability_settings({}), capability_settings(environ)
    return {
        declared.metadata["variable"]: name
        for name, kind in everything.items()
        for declared in declared_settings(kind)
        if name not in installed
    }


def _hint(near: str | None, left_out: str | None) -> str:
    if left_out:
        return f"It belongs to {left_out}, which BROKERAGE_WITHOUT leaves out: remove one of them."
    return f"Did you mean {near}?" if near else "`brokerage settings` lists all of them."


def reject_unknown_settings(environ: Mapping[str, str]) -> None:
    """Raise SettingError for unknown variables with the prefix of settings: a mistyped limit would not apply."""
    sentences = [f"{name} is not a setting. {hint}" for name, hint in unknown_variables(environ).items()]
    if sentences:
        raise SettingError(" ".join(sentences))
