"""From the key of a record of a source to the identifier under which it is served."""

from __future__ import annotations

import re
from functools import lru_cache
from uuid import UUID, uuid5

from indexer.errors import ItemError
from indexer.reso.left_out import shown
from indexer.reso.texts import is_masked

# What `mappings.record_type.IDENTIFIER_PATTERN` forbids, halves of characters, and the sign that stands for them.
_FORBIDDEN = re.compile("[\x00-\x20/\x7f%\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST = 128
_UUID = re.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
# Of identifiers that are made of keys: a change of it would make every agent and team a new one.
NAMESPACE = UUID("7b53ff88-fbe3-4584-ab3d-69c23a4f1fb3")


def key_text(value: object) -> str | None:
    """Return a key as a text, None for an absent or masked one and for what can be no key."""
    if isinstance(value, str):
        return None if not value.strip() or is_masked(value) else value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


class Identifiers:
    """The identifiers of one source; two sources whose keys may be alike have different prefixes."""

    def __init__(self, prefix: str = "") -> None:
        """Nothing is put before a key unless it is said."""
        self._prefix = prefix
        # Listings have few agents and offices between them.
        self.plain = lru_cache(65_536)(self._plain)
        self.uuid = lru_cache(65_536)(self._uuid)

    def _plain(self, key: str) -> str:
        """Return prefix and key, percent-encoded where an identifier may not hold a character.

        Raise ItemError for one of more than 128 characters.
        """
        identifier = _FORBIDDEN.sub(_percent, self._prefix + key)
        if not 1 <= len(identifier) <= _LONGEST:
            raise ItemError("", f"is {shown(key)}: as an identifier it has {len(identifier)} characters, not 1 to 128")
        return identifier

    def _uuid(self, key: str) -> str:
        """Return the key in lower case where it is a UUID and there is no prefix, else a UUID made of both."""
        if not self._prefix and _UUID.fullmatch(key):
            return key.lower()
        return str(uuid5(NAMESPACE, _SURROGATE.sub(_percent, self._prefix + key)))


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))
