"""Identifiers of our records, made from the keys of source records."""

import re
from functools import lru_cache
from uuid import UUID, uuid5

from indexer.errors import InvalidRecordError
from indexer.reso.mapping.source_values import describe_value, is_masked
from mappings.identifiers import CONTROL_CHARACTERS, MAX_BYTES, MAX_CHARACTERS, is_identifier

# Characters that `mappings.identifiers` forbids, and the percent sign of the escapes.
_FORBIDDEN = re.compile(f"[{CONTROL_CHARACTERS} /%]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UUID = re.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
# The namespace of name-based UUIDs: changing it would give every agent and team a new identity.
NAMESPACE = UUID("7b53ff88-fbe3-4584-ab3d-69c23a4f1fb3")


def key_text(value: object) -> str | None:
    """Return a key as text, None for an absent or masked one and for a value that is not a key."""
    if isinstance(value, str):
        return None if not value.strip() or is_masked(value) else value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 else None


class IdentifierFactory:
    """Makes the identifiers of one source; sources whose keys may collide need different prefixes."""

    def __init__(self, prefix: str = "") -> None:
        """Take the prefix of all keys."""
        self._prefix = prefix
        # Cached because many listings share few agents and offices.
        self.plain = lru_cache(65_536)(self._plain)
        self.uuid = lru_cache(65_536)(self._uuid)

    def _plain(self, key: str) -> str:
        """Return prefix and key, with forbidden characters percent-encoded; raise InvalidRecordError if too long."""
        identifier = _FORBIDDEN.sub(_percent, self._prefix + key)
        identifier = identifier.replace(".", "%2E") if identifier in {".", ".."} else identifier
        if not is_identifier(identifier):
            length = f"{len(identifier)} characters, not 1 to {MAX_CHARACTERS}"
            if len(identifier) <= MAX_CHARACTERS and identifier:
                length = f"{len(identifier.encode())} bytes, more than {MAX_BYTES}"
            raise InvalidRecordError("", f"is {describe_value(key)}: as an identifier it has {length}")
        return identifier

    def _uuid(self, key: str) -> str:
        """Return the key in lower case if it is a UUID and there is no prefix, else a name-based UUID of both."""
        if not self._prefix and _UUID.fullmatch(key):
            return key.lower()
        return str(uuid5(NAMESPACE, _SURROGATE.sub(_percent, self._prefix + key)))


def _percent(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode("utf-8", "surrogatepass"))
