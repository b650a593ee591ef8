"""Ranges and preconditions of a file with a strong entity tag (RFC 9110, sections 13 and 14).

There is no modification date that clients could use: the tag is the SHA-256 of the file.
"""

import re
from http import HTTPStatus
from typing import NamedTuple

from multidict import MultiMapping

from service.exports.errors import PreconditionFailed, RangeNotSatisfiable

# One range. Several, other units and malformed ranges are ignored, and the whole file is sent, as the RFC allows.
_RANGE = re.compile(r"bytes=(?P<first>\d{0,18})-(?P<last>\d{0,18})", re.ASCII | re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?"[^"]*"|\*')


class FileSlice(NamedTuple):
    """The part of a file to send, and the status to send it with; `size` is that of the whole file."""

    status: int
    first: int
    length: int
    size: int

    @property
    def headers(self) -> dict[str, str]:
        """The header that names the part, if it is one."""
        if self.status != HTTPStatus.PARTIAL_CONTENT:
            return {}
        return {"Content-Range": f"bytes {self.first}-{self.first + self.length - 1}/{self.size}"}


def requested_slice(headers: MultiMapping[str], tag: str, size: int) -> FileSlice:
    """Return what a request gets of a file; raise PreconditionFailed or RangeNotSatisfiable."""
    if (required := _tags(headers, "If-Match")) and not {tag, "*"} & required:
        raise PreconditionFailed
    if {tag, f"W/{tag}", "*"} & _tags(headers, "If-None-Match"):
        return FileSlice(HTTPStatus.NOT_MODIFIED, 0, 0, size)
    # A weak tag, another one or a date in If-Range: the whole file.
    if headers.get("If-Range", tag).strip() == tag and (asked := _range(headers.get("Range", ""), size)) is not None:
        first, length = asked
        return FileSlice(HTTPStatus.PARTIAL_CONTENT, first, length, size)
    return FileSlice(HTTPStatus.OK, 0, size, size)


def _tags(headers: MultiMapping[str], name: str) -> set[str]:
    return {*_TAG.findall(", ".join(headers.getall(name, ())))}


def _range(text: str, size: int) -> tuple[int, int] | None:
    """Return the first byte and the length of a range, None if it is to be ignored."""
    match = _RANGE.fullmatch(text.strip())
    if match is None or not (match["first"] or match["last"]):
        return None
    if not match["first"]:
        length = min(int(match["last"]), size)
        if not length:
            raise RangeNotSatisfiable(size)
        return size - length, length
    first, last = int(match["first"]), int(match["last"] or size - 1)
    if match["last"] and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return first, min(last, size - 1) - first + 1
