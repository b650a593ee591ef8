"""The identity of an index, which changes when it is restored from a snapshot or replaced by hand.

An index that is restored under a free name gets a new UUID. One that is restored over a closed index keeps its UUID and
gets a new history UUID, a setting that other indices lack.
"""

from collections.abc import Mapping
from typing import Any

UUID_SETTING, HISTORY_SETTING = "index.uuid", "index.history.uuid"


def index_identity(settings: Mapping[str, Any]) -> str:
    """Return the identity of an index by its flat settings, empty if they lack the UUID."""
    parts = (settings.get(UUID_SETTING), settings.get(HISTORY_SETTING))
    return ":".join(part for part in parts if part)


def is_another(known: str, stored: str) -> bool:
    """Whether two identities are those of different indices; an unknown one differs from none."""
    return bool(known and stored) and known != stored
