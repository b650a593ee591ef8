"""The text form of a key: `bk_<key id>_<secret><checksum>` (decisions, Key format).

The prefix is for secret scanners (`bk_[a-z0-9]{10}_[A-Za-z0-9]{36}`), the id is public, the secret has 178 random bits,
and the checksum detects typos without a lookup.
"""

import hashlib
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field

_BASE62 = string.digits + string.ascii_letters
_ID_ALPHABET = string.digits + string.ascii_lowercase
KEY_PREFIX, KEY_ID_PATTERN = "bk_", r"[a-z0-9]{10}"
_FORM = re.compile(
    rf"{KEY_PREFIX}(?P<key_id>{KEY_ID_PATTERN})_(?P<secret>[A-Za-z0-9]{{30}})(?P<checksum>[A-Za-z0-9]{{6}})", re.ASCII
)


@dataclass(frozen=True)
class KeyText:
    """A complete key; its `repr` omits the secret."""

    key_id: str
    secret: str = field(repr=False)

    @property
    def digest(self) -> str:
        """The stored hash of the secret: SHA-256 in hex. The secret has high entropy, so no slow hash is needed."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def reveal(self) -> str:
        """Return the complete key, to be shown once."""
        body = f"{KEY_PREFIX}{self.key_id}_{self.secret}"
        return body + _checksum(body)


def generate_key() -> KeyText:
    """Return a new random key."""
    return KeyText(_random_text(_ID_ALPHABET, 10), _random_text(_BASE62, 30))


def parse_key(text: str) -> KeyText | None:
    """Parse a key; return None if its form or checksum is wrong."""
    match = _FORM.fullmatch(text)
    if match is None or _checksum(text[:-6]) != match["checksum"]:
        return None
    return KeyText(match["key_id"], match["secret"])


def _random_text(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits
