"""All settings that commands read, and the rejection of unknown variables."""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass

from brokerage_feed.pull_settings import PULL_SETTINGS
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError, setting, unknown_settings
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
    """Heap and download source of the embedded node, which reads them by itself."""

    heap_mb: int = setting(HEAP_SETTING, DEFAULT_HEAP_MB, "Heap of each embedded node, in megabytes.")
    repository: str = setting(REPOSITORY_SETTING, "", "Maven repository to download the embedded node from.")


SETTINGS_TYPES = (ConnectionSettings, ServiceSettings, IndexerSettings, ResoSettings, NodeSettings, PullSettings)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the unknown variables with the prefix of settings, each with a hint."""
    unknown = unknown_settings(environ, SETTINGS_TYPES)
    return {
        name: f"Did you mean {near}?" if near else "`brokerage settings` lists all of them."
        for name, near in unknown.items()
    }


def reject_unknown_settings(environ: Mapping[str, str]) -> None:
    """Raise SettingError for unknown variables with the prefix of settings: a mistyped limit would not apply."""
    sentences = [f"{name} is not a setting. {hint}" for name, hint in unknown_variables(environ).items()]
    if sentences:
        raise SettingError(" ".join(sentences))
