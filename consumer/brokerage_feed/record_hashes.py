"""The digest of a set of records: the sum of their hashes, independent of their order."""

from dataclasses import dataclass
from hashlib import sha256

_MODULUS = 2**64


def record_hash(identifier: str, content: str) -> int:
    """Return the hash of a record: the first 8 bytes of SHA-256(content as 8 bytes, then identifier), big-endian."""
    return int.from_bytes(sha256(bytes.fromhex(content) + identifier.encode()).digest()[:8])


def bucket_of(identifier: str) -> int:
    """Return the bucket of a record, 0 to 65,535: the first 2 bytes of SHA-256(identifier)."""
    return int.from_bytes(sha256(identifier.encode()).digest()[:2])


def format_digest(total: int) -> str:
    """Return a sum of hashes in the form of the API: modulo 2**64, as 16 hexadecimal digits."""
    return f"{total % _MODULUS:016x}"


@dataclass(slots=True)
class RunningDigest:
    """The count and digest of a growing set."""

    count: int = 0
    total: int = 0

    def add(self, identifier: str, content: str) -> None:
        self.count += 1
        self.total += record_hash(identifier, content)

    @property
    def digest(self) -> str:
        """The digest in the form of the API."""
        return format_digest(self.total)
