"""The text form of a key: `bk_<key id>_<secret><checksum>` (decisions, Key format).

The prefix is for secret scanners (`bk_[a-z0-9]{10}_[A-Za-z0-9]{36}`), the id is public, the secret has 178 random bits
and the checksum refuses a typo without a look-up.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field

_BASE62 = string.digits + string.ascii_letters
_ID_ALPHABET = string.digits + string.ascii_lowercase
_FORM = re.compile(r"bk_(?P<key_id>[a-z0-9]{10})_(?P<secret>[A-Za-z0-9]{30})(?P<checksum>[A-Za-z0-9]{6})", re.ASCII)


@dataclass(frozen=True)
class KeyText:
    """A key as its holder has it; the secret part never appears in a representation."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def digest(self) -> str:
        """What is stored of the secret: its SHA-256 in hex. The secret is high-entropy, so no slow hash is needed."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def reveal(self) -> str:
        """Return the whole key, to be shown once."""
        body = f"bk_{self.key_id}_{self.secret}"
        return body + _checksum(body)


def mint() -> KeyText:
    """Make a new key."""
    return KeyText(_draw(_ID_ALPHABET, 10), _draw(_BASE62, 30))


def parse(text: str) -> KeyText | None:
    """Read a key; None when its form or checksum is wrong."""
    match = _FORM.fullmatch(text)
    if match is None or _checksum(text[:-6]) != match["checksum"]:
        return None
    return KeyText(match["key_id"], match["secret"])


def _draw(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits
