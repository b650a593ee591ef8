"""Records with a source's exact numbers in the place of rounded ones, for the compatible profile (decision 39)."""

from collections.abc import Collection

import msgspec

from service.http.payload import JsonBytes
from service.search.engine_failures import malformed_response

_Members = dict[str, msgspec.Raw]


class _Source(msgspec.Struct, gc=False):
    record: msgspec.Raw
    exact: _Members = {}


class _Hit(msgspec.Struct, rename={"source": "_source"}, gc=False):
    source: _Source


class _Hits(msgspec.Struct):
    hits: list[_Hit]


class _Response(msgspec.Struct):
    hits: _Hits


_decode = msgspec.json.Decoder(_Response).decode
_decode_source = msgspec.json.Decoder(_Source).decode
_members_of = msgspec.json.Decoder(_Members).decode
_encode = msgspec.json.Encoder().encode


def extract_exact_records(response: bytes | bytearray, names: Collection[str]) -> list[JsonBytes]:
    """Return the encoded records of a search response in order, with the exact values of the members `names`.

    Documents of an earlier version have none: their records are returned as they are stored.
    """
    try:
        hits = _decode(response).hits.hits
    except msgspec.DecodeError:
        raise malformed_response(response) from None
    return [_exact_record(hit.source, names) for hit in hits]


def exact_record(source: bytes, names: Collection[str]) -> JsonBytes:
    """Return the encoded record of a stored document, with the exact values of the members `names`."""
    return _exact_record(_decode_source(source), names)


def _exact_record(source: _Source, names: Collection[str]) -> JsonBytes:
    shown = {name: value for name, value in source.exact.items() if name in names}
    return _encode(_members_of(source.record) | shown) if shown else memoryview(source.record)
