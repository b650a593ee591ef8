"""What records are composed of beside their own fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import datetime as dt

    from indexer.reso.media import Media
    from indexer.reso.teams import Memberships


@dataclass(frozen=True)
class Parts:
    """The finders of parts, shared by all resources; `time_zone` is that of listings that do not say theirs."""

    media: Media
    memberships: Memberships
    open_house_key: str
    time_zone: dt.tzinfo | None
