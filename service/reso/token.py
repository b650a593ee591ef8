"""`$skiptoken`: where the next page of a walk begins, and what of the first page holds for all."""

from __future__ import annotations

import base64
import binascii
from hashlib import sha256
from typing import Annotated

import msgspec

from service.errors import InvalidRequest
from service.parameters.groups import LARGEST_PAGE
from service.reso.options import TOKEN

# Raised when a token of an earlier form cannot be read any more.
_FORM = 1
_DIGEST_BYTES = 8

# What Elasticsearch takes for any number of ours.
_Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
# The values that rows are ordered by, in the order of the walk, of the last row that was answered.
Position = tuple[str | _Whole, ...]


class Walk(msgspec.Struct, frozen=True, array_like=True):
    """How far a walk has come.

    `question` is a fingerprint of what was asked, `size` that of its pages, `seen` the rows answered so far, `count`
    what the first page counted, `floor` the last event that there was when a walk from the beginning began.
    """

    question: bytes
    size: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_PAGE)]
    seen: _Whole = 0
    count: _Whole | None = None
    position: Position = ()
    floor: _Whole = 0
    form: int = _FORM

    @property
    def text(self) -> str:
        """The token, of letters, digits, `-` and `_`."""
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")


_decode = msgspec.msgpack.Decoder(Walk).decode


def question_of(*parts: object) -> bytes:
    """Return the fingerprint of what is asked: of entity set, filter and order."""
    return sha256(msgspec.json.encode(parts)).digest()[:_DIGEST_BYTES]


def read(text: str, question: bytes, kinds: tuple[type, ...]) -> Walk:
    """Return what a token says; raise InvalidRequest for one that is none, or that was made for another question.

    `kinds` are the types of the values of a position.
    """
    try:
        walk = _decode(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True))
    except (msgspec.DecodeError, binascii.Error, ValueError):
        walk = None
    if walk is None or walk.form != _FORM or tuple(map(type, walk.position)) != kinds:
        raise InvalidRequest.of(TOKEN, "is not a token of this service: follow @odata.nextLink as it was received.")
    if walk.question != question:
        raise InvalidRequest.of(TOKEN, "was made for another $filter or $orderby: follow @odata.nextLink.")
    return walk
