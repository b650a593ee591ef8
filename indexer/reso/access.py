"""One source and what is known of it: what everything that reads it works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from indexer.report import OnProgress
    from indexer.reso.mirror import Mirror
    from indexer.reso.settings import ResoSettings
    from indexer.reso.web import Web


@dataclass(frozen=True)
class Access:
    """The way to a source, its mirror, and whom to show how the reading goes."""

    web: Web
    mirror: Mirror
    settings: ResoSettings
    on_progress: OnProgress
