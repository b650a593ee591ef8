"""All settings that commands read, and the rejection of unknown variables."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

from brokerage_feed.pull_settings import PULL_SETTINGS
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError, declared_settings, setting, unknown_settings
from embedded.artifacts import REPOSITORY_SETTING
from embedded.node_options import DEFAULT_HEAP_MB, HEAP_SETTING
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


_COMMON_TYPES = (ConnectionSettings, ServiceSettings, NodeSettings, PullSettings)


# Commands need not import the modules of settings that they are not given: the indexer takes 6 MB of each worker, the
# capabilities 11 MB and a quarter of a second of each command of the indexer.
def _indexer_types(_: Mapping[str, str]) -> tuple[type[Any], ...]:
    from indexer.reso.settings import ResoSettings  # noqa: PLC0415
    from indexer.settings import IndexerSettings  # noqa: PLC0415

    return (IndexerSettings, ResoSettings)


def _capability_types(environ: Mapping[str, str]) -> tuple[type[Any], ...]:
    from service.capabilities import capability_settings  # noqa: PLC0415

    return tuple(capability_settings(environ).values())


def settings_types(environ: Mapping[str, str]) -> tuple[type[Any], ...]:
    """Return the classes of all settings, without those of capabilities that are left out; raise SettingError."""
    connection, service, *others = _COMMON_TYPES
    return (connection, service, *_capability_types(environ), *_indexer_types(environ), *others)


def unknown_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the prefix of settings that are none, each with a hint; raise SettingError."""
    known: tuple[type[Any], ...] = _COMMON_TYPES
    groups = (_indexer_types, _capability_types)
    for types in groups if "indexer" in sys.modules else groups[::-1]:
        if not unknown_settings(environ, known):
            return {}
        known += types(environ)
    unknown = unknown_settings(environ, known)
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
