"""Every kind of settings that a command of the product reads, and the refusal of variables that are no setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerage.pull_settings import PullSettings
from cluster.connection import ConnectionSettings
from cluster.settings import SettingError, setting, strangers
from embedded.options import DEFAULT_HEAP_MB, HEAP_SETTING
from embedded.repository import REPOSITORY_SETTING
from indexer.reso.settings import ResoSettings
from indexer.settings import IndexerSettings
from service.settings import ServiceSettings

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class NodeSettings:
    """How large the embedded node is and where it comes from; it stands alone and reads them itself."""

    heap_mb: int = setting(HEAP_SETTING, DEFAULT_HEAP_MB, "Heap of each embedded node, in megabytes.")
    repository: str = setting(REPOSITORY_SETTING, "", "Maven repository that the embedded node is downloaded from.")


KINDS = (ConnectionSettings, ServiceSettings, IndexerSettings, ResoSettings, NodeSettings, PullSettings)


def refuse_strangers(environ: Mapping[str, str]) -> None:
    """Raise SettingError where variables look like settings and are none: a limit that is misspelt holds for nobody."""
    found = strangers(environ, KINDS)
    sentences = [
        f"{name} is not a setting. {f'Did you mean {near}?' if near else '`brokerage settings` lists all there are.'}"
        for name, near in found.items()
    ]
    if sentences:
        raise SettingError(" ".join(sentences))
