"""Answers as the bytes they came in: asked for with `RAW_HEADERS`, they pass the client unparsed.

The client rewrites `application/json` in requests to a media type of its own, and its typed calls ask for that one too;
media types are case-insensitive, and what is spelt otherwise it leaves alone. Elasticsearch then answers with plain
`application/json`, errors included, and that type is registered here with a serializer that does nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from elasticsearch import JsonSerializer
from elasticsearch.serializer import DEFAULT_SERIALIZERS

if TYPE_CHECKING:
    from elastic_transport import Serializer

_ASKED = "application/JSON"
_ANSWERED = "application/json"
_TYPED = "application/vnd.elasticsearch+json"

# JSON both ways lets Elasticsearch copy the stored source into the answer without parsing it.
RAW_HEADERS = {"accept": _ASKED, "content-type": _ASKED}


class RawSerializer(JsonSerializer):
    """Leaves answers as the bytes they came in, for callers that cut them or decode them by a type."""

    def loads(self, data: bytes) -> Any:
        """Return the bytes themselves."""
        return data

    def dumps(self, data: Any) -> bytes:
        """Encode a request body."""
        return data if isinstance(data, bytes) else orjson.dumps(data)


def serializers() -> dict[str, Serializer]:
    """Return the client's serializers by media type: raw for what `RAW_HEADERS` asks, parsed for typed calls.

    The type of typed calls is named since the client would otherwise take the serializer of `application/json` for it.
    """
    raw = RawSerializer()
    return {_ASKED: raw, _ANSWERED: raw, _TYPED: DEFAULT_SERIALIZERS[_TYPED]}
