"""Digests of sets of records, independent of order and of how a set is split.

Records fall into buckets, which narrow down where two sets differ. All values derive from SHA-256; integers are
signed, 8 bytes long and big-endian, and strings are UTF-8:

- the bucket of a record is the first two bytes of SHA-256(identifier), its coarse bucket the first of these;
- the hash of a record is the first 8 bytes of SHA-256(values, then identifier), read as an unsigned integer;
- the digest of a set is its number of records and the sum of their hashes modulo 2**64.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from hashlib import sha256

BUCKETS = 65_536
COARSE_BUCKETS = 256
_MODULUS = 2**64


def bucket(identifier: str) -> int:
    """Return the bucket of a record, 0 to 65,535: the first two bytes of the SHA-256 of its identifier."""
    return int.from_bytes(sha256(identifier.encode()).digest()[:2])


def coarse_bucket(identifier: str) -> int:
    """Return the coarse bucket of a record, 0 to 255: the first byte of its bucket."""
    return bucket(identifier) >> 8


def record_hash(identifier: str, *values: int) -> int:
    """Return the hash of a record, below 2**64: of its identifier and of signed 64-bit integers, its state.

    The state is the content hash, or any other values to compare; all records of a digest have the same number of them.
    """
    packed = struct.pack(f">{len(values)}q", *values)
    return int.from_bytes(sha256(packed + identifier.encode()).digest()[:8])


def split_hash(number: int) -> tuple[int, int]:
    """Return the upper and lower 32 bits of a hash, unsigned: Elasticsearch sums each of them exactly."""
    return number >> 32, number & 0xFFFFFFFF


@dataclass(slots=True)
class Digest:
    """The digest of a set of records: their count, and the sum of their hashes modulo 2**64."""

    count: int = 0
    total: int = 0

    def add(self, identifier: str, *values: int) -> None:
        """Add a record; see `record_hash`."""
        self.count += 1
        self.total = (self.total + record_hash(identifier, *values)) % _MODULUS

    def __add__(self, other: Digest) -> Digest:
        """Return the digest of the union of two disjoint sets."""
        return Digest(self.count + other.count, (self.total + other.total) % _MODULUS)
