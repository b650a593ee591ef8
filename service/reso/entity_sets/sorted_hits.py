"""The sort values of the hits of a search response, without decoding the records between them."""

from __future__ import annotations

from itertools import pairwise
from json import JSONDecoder
from typing import Any

from service.feed.hit_parser import SOURCE_KEY
from service.search.engine_failures import malformed_response

_SORT_KEY = b',"sort":'
_decode_first = JSONDecoder().raw_decode
# Sort values are the key and few others; the text of the next hit follows.
_LONGEST = 4_096


def sort_values(response: bytes | bytearray) -> list[list[Any]]:
    """Return the sort values of each hit, in order."""
    found: list[list[Any]] = []
    starts = _positions(response, SOURCE_KEY)
    for start, end in pairwise([*starts, len(response)]):
        # No later text of a hit looks like the key: quotes in strings are escaped.
        at = response.rfind(_SORT_KEY, start, end)
        if at < 0:
            raise malformed_response(response)
        text = response[at + len(_SORT_KEY) : min(end, at + _LONGEST)].decode(errors="ignore")
        found.append(_decode_first(text)[0])
    return found


def _positions(response: bytes | bytearray, key: bytes) -> list[int]:
    positions: list[int] = []
    at = response.find(key)
    while at >= 0:
        positions.append(at)
        at = response.find(key, at + 1)
    return positions
