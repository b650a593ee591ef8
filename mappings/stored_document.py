"""The stored document: search fields first, then the public record verbatim between TAB delimiters.

Elasticsearch keeps source bytes as sent, and a raw TAB is illegal inside a JSON string, so in a search response the
records are exactly the bytes between TABs. Nothing may re-render the source: no update by script,
no ingest pipeline, no engine-side reindex.

The stamp is the last of the search fields: it can be replaced without reading the others. It is `clock`, `sequence` and
`changed`: for the record's creation and for each group of fields that has changed since, the sequence of that change
(decision 63). Before it is `past`, if there is one (`mappings.history`).

If numbers of the record were rounded, one of the search fields is `exact`: an object of the numbers as the source has
them. It is not indexed, and neither content, digests nor changes depend on it (decision 39).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache
from hashlib import sha256
from typing import Any

import msgspec

from mappings.history import decode_past

RECORD_DELIMITER = b"\t"
RECORD_KEY = b'"record":'
EXACT = "exact"
# The most that Elasticsearch allows in one `terms` query (`index.max_terms_count`).
MAX_TERMS = 65_536
# Large scopes are few, the same for many requests, and take a millisecond to sort.
_KEPT_SCOPES = 64

# A string cannot contain it: its quotes are escaped.
_FEED_KEY = re.compile(rb'"feed_key":(?P<key>"(?:[^"\\]|\\.)*")')
_STAMP_KEY = b',"clock":'
_EXACT = re.compile(rb',"exact":(\{[^{}]*\})')
_STAMP = re.compile(
    rb',"clock":\d+,"sequence":(?P<sequence>\d+)(?:,"changed":\[(?P<changed>[\d,]*)\])?(?=\}\Z|,"record":\t)'
)
_PAST = re.compile(rb',"past":"[^"]*"(?:,"history_count":\d+)?')

# A member of `changed` is the number of a group of fields, then the sequence of its last change in so many bits, which
# is 0 while it is the document's own, pending one.
_SEQUENCE_BITS = 40
_LARGEST_SEQUENCE = 2**_SEQUENCE_BITS - 1
# The number of what every record has: its creation. Groups have others (`mappings.resource.ChangeGroup`).
CREATION = 0


class TombstoneReason(StrEnum):
    """Why a document is a tombstone, or not as its source says (search field `reason`)."""

    DELETED = "deleted"  # the source said so
    VANISHED = "vanished"  # a full source lacks it
    MOVED = "moved"  # on move documents: another company has it now
    UNREADABLE = "unreadable"  # the source has a newer state that cannot be read; a live record is off the market


_LACKING = "lacking "


def lacking(members: Iterable[str]) -> str | None:
    """Return the search field `reason` of a live record whose source lacks these names, None if it lacks none."""
    names = " ".join(members)
    return _LACKING + names if names else None


def lacking_members(reason: str | None) -> list[str]:
    """Return the members whose names the source of a live record lacks, whether they were filled or not."""
    return reason.removeprefix(_LACKING).split() if reason and reason.startswith(_LACKING) else []


def change_number(group: int, sequence: int = 0) -> int:
    """Return the member of `changed` for a group; without a sequence it gets that of the document's stamp."""
    return group << _SEQUENCE_BITS | sequence


def split_change(number: int) -> tuple[int, int]:
    """Return the group of a member of `changed`, and the sequence of its last change."""
    return number >> _SEQUENCE_BITS, number & _LARGEST_SEQUENCE


CREATED = (change_number(CREATION),)


def encode_document(  # noqa: PLR0913 - its parts
    search_fields_json: bytes,
    clock: int,
    sequence: int,
    record: bytes | None,
    *,
    changed: Sequence[int] = CREATED,
    past: str = "",
) -> bytes:
    """Join the source bytes of one document, on one line.

    `search_fields_json` is the JSON object of the search fields without past, stamp and closing brace, at least one;
    `record` is the encoded record, None for a tombstone.
    """
    encoded_past = _encode_past(past) if past else b""
    head = b"".join((search_fields_json, encoded_past, _encode_stamp(clock, sequence, changed)))
    return head + b"}" if record is None else b"".join((head, b',"record":\t', record, b"\t}"))


def _encode_past(past: str) -> bytes:
    if (decoded := decode_past(past)) is None:
        return b""
    counted = b',"history_count":%d' % decoded.count if decoded.count else b""
    return b',"past":"%b"' % past.encode() + counted


def _encode_stamp(clock: int, sequence: int, changed: Iterable[int]) -> bytes:
    numbers = b",".join([b"%d" % number for number in stamped_changes(changed, sequence)])
    return b',"clock":%d,"sequence":%d,"changed":[%b]' % (clock, sequence, numbers)


def stamped_changes(changed: Iterable[int], sequence: int) -> list[int]:
    """Return `changed` under the sequence of a document's stamp; a pending one leaves open what is open."""
    own = sequence if sequence <= _LARGEST_SEQUENCE else 0
    return [number if number & _LARGEST_SEQUENCE else number | own for number in changed]


def split_record(source: bytes) -> tuple[bytes, bytes]:
    """Return the search fields of a document, without the closing brace, and its record, empty for a tombstone."""
    head, _, rest = source.partition(RECORD_DELIMITER)
    return head.removesuffix(b"," + RECORD_KEY).removesuffix(b"}"), rest.partition(RECORD_DELIMITER)[0]


def search_value(head: bytes, name: str) -> bytes:
    """Return the encoded number that some search fields have under a name, empty without one."""
    found = re.search(rb',"%b":(-?[0-9]+)' % name.encode(), head)
    return b"" if found is None else found[1]


def exact_values(head: bytes) -> bytes:
    """Return the JSON object `exact` of some search fields, empty without one: its name cannot occur in a string."""
    found = _EXACT.search(head)
    return b"" if found is None else found[1]


def add_search_fields(source: bytes, members: bytes) -> bytes:
    """Return the source of a document with further search fields, each after a comma; raise as `replace_stamp`."""
    before, rest = split_at_stamp(source)
    return b"".join((before, members, rest))


def split_at_stamp(source: bytes) -> tuple[bytes, bytes]:
    """Return the source of a document before its stamp, and the rest; raise as `replace_stamp`."""
    start = _find_stamp(source).start()
    return source[:start], source[start:]


def replace_stamp(source: bytes, clock: int, sequence: int, changed: Sequence[int] | None = None) -> bytes:
    """Return the source of a document with another stamp; raise ValueError if it has none.

    Without `changed`, what changed under a pending stamp now changed under the new one, and what has changed before
    keeps its sequence.
    """
    match = _find_stamp(source)
    stamp = _encode_stamp(clock, sequence, _read_changed(match) if changed is None else changed)
    return b"".join((source[: match.start()], stamp, source[match.end() :]))


def with_changes(source: bytes) -> bytes:
    """Return the source of a document, with `changed` if an earlier version wrote it."""
    try:
        stamp = _find_stamp(source)
    except ValueError:
        return source  # of another program: what else it lacks is noticed elsewhere
    if stamp["changed"] is not None:
        return source
    numbers = stamped_changes(CREATED, int(stamp["sequence"]))
    return b'%b,"changed":[%d]%b' % (source[: stamp.end()], numbers[0], source[stamp.end() :])


def reopened_changes(source: bytes) -> list[int]:
    """Return `changed` of a document whose stamp was never published: its last changes get the next stamp."""
    match = _find_stamp(source)
    own, changes = int(match["sequence"]), map(split_change, _read_changed(match))
    return [change_number(group, 0 if sequence == own else sequence) for group, sequence in changes]


def _read_changed(stamp: re.Match[bytes]) -> Sequence[int]:
    """Return `changed` of a stamp; a document of an earlier version, which has none, counts as new."""
    return CREATED if stamp["changed"] is None else [int(number) for number in stamp["changed"].split(b",")]


def replace_past(source: bytes, past: str) -> bytes:
    """Return the source of a document with another past, or with none; raise as `replace_stamp`."""
    before, rest = split_at_stamp(source)
    return b"".join((_PAST.sub(b"", before), _encode_past(past), rest))


def stamped_sequence(source: bytes) -> int:
    """Return the sequence of a document's stamp; raise ValueError if it has none."""
    return int(_find_stamp(source)["sequence"])


def _find_stamp(source: bytes) -> re.Match[bytes]:
    delimiter = source.find(RECORD_DELIMITER)
    # No later key has this name, and a string cannot look like a key: its quotes are escaped.
    start = source.rfind(_STAMP_KEY, 0, delimiter if delimiter >= 0 else len(source))
    match = _STAMP.match(source, start) if start >= 0 else None
    if match is None:
        raise ValueError("The document has no timestamp after its search fields: the indexer did not write it.")
    return match


def stored_feed_key(source: bytes) -> str:
    """Return the feed key of a document; raise ValueError if it has none among its search fields."""
    match = _FEED_KEY.search(source, 0, _find_stamp(source).start())
    if match is None:
        raise ValueError("The document has no feed key: the indexer did not write it.")
    return str(msgspec.json.decode(match["key"]))


def feed_key(company: str, identifier: str) -> str:
    """Return the key that sorts an index: the company key, a colon, the record's identifier."""
    return f"{company}:{identifier}"


def identifier_from_feed_key(key: str) -> str:
    """Return the record's identifier in a feed key; a company key has no colon."""
    return key.partition(":")[2]


def feed_key_range(company: str, after: str = "") -> dict[str, str]:
    """Return the range of one company's feed keys after the cursor `after`.

    A company key has neither `:` nor `;`, the character that follows `:`, so the bounds hold exactly one company.
    """
    return {"gt": feed_key(company, after), "lt": f"{company};"}


def companies_query(companies: frozenset[str]) -> dict[str, Any]:
    """Return the query for the documents of these companies, tombstones included."""
    names = sorted_companies(companies)
    parts = [[*names[start : start + MAX_TERMS]] for start in range(0, len(names), MAX_TERMS)] or [[]]
    queries: list[dict[str, Any]] = [{"terms": {"company": part}} for part in parts]
    return queries[0] if len(queries) == 1 else {"bool": {"should": queries}}


@lru_cache(_KEPT_SCOPES)
def sorted_companies(companies: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(companies))


def move_id(company: str, identifier: str) -> str:
    """Return the id of the document that records a move out of a company.

    Neither a company key (letters, digits, `_`, `-`) nor an identifier (`mappings.fields`) has a slash,
    so the id never equals that of a record.
    """
    return f"{company}/{identifier}"


def split_document_id(document_id: str) -> tuple[str, str]:
    """Return the company that a move is from, empty for a record's own document, and the record's identifier."""
    company, _, identifier = document_id.rpartition("/")
    return company, identifier


def is_move(document_id: str) -> bool:
    return "/" in document_id


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
    packed = _packing(len(values))(*values)
    return int.from_bytes(sha256(packed + identifier.encode()).digest()[:8])


@cache
def _packing(count: int) -> Callable[..., bytes]:
    return struct.Struct(f">{count}q").pack


def split_hash(number: int) -> tuple[int, int]:
    """Return the upper and lower 32 bits of a hash, unsigned: Elasticsearch sums each of them exactly."""
    return number >> 32, number & 0xFFFFFFFF


@dataclass(slots=True)
class Digest:
    """The digest of a set of records: their count, and the sum of their hashes modulo 2**64.

    It does not depend on their order, nor on how a set is split. Records fall into buckets, which narrow down where two
    sets differ. All values derive from SHA-256; integers are signed, 8 bytes long and big-endian, strings are UTF-8:

    - the bucket of a record is the first two bytes of SHA-256(identifier), its coarse bucket the first of these;
    - the hash of a record is the first 8 bytes of SHA-256(values, then identifier), read as an unsigned integer.
    """

    count: int = 0
    total: int = 0

    def add(self, identifier: str, *values: int) -> None:
        self.count += 1
        self.total = (self.total + record_hash(identifier, *values)) % _MODULUS

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.count + other.count, (self.total + other.total) % _MODULUS)
