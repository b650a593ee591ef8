"""Raw responses: with `RAW_HEADERS`, the client returns JSON as bytes instead of parsing it.

The client replaces `application/json` in requests with its own media type, but leaves another spelling alone, and media
types are case-insensitive. Elasticsearch then responds with plain `application/json`, also for errors, for which a
serializer that does nothing is registered.
"""

from typing import Any

import orjson
from elastic_transport import Serializer
from elasticsearch import JsonSerializer
from elasticsearch.serializer import DEFAULT_SERIALIZERS

_RAW_REQUEST_TYPE = "application/JSON"
_RAW_RESPONSE_TYPE = "application/json"
_TYPED_TYPE = "application/vnd.elasticsearch+json"

# With JSON in both directions, Elasticsearch copies the stored source into the response without parsing it.
RAW_HEADERS = {"accept": _RAW_REQUEST_TYPE, "content-type": _RAW_REQUEST_TYPE}


class RawSerializer(JsonSerializer):
    """Returns responses as bytes, for callers that split them or decode them by type."""

    def loads(self, data: bytes) -> Any:
        """Return the bytes unchanged."""
        return data

    def dumps(self, data: Any) -> bytes:
        """Encode a request body."""
        return data if isinstance(data, bytes) else orjson.dumps(data)


def raw_serializers() -> dict[str, Serializer]:
    """Return the client's serializers by media type: raw for requests with `RAW_HEADERS`, parsing for typed calls.

    The type of typed calls is listed since the client would otherwise use the serializer of `application/json` for it.
    """
    raw = RawSerializer()
    return {_RAW_REQUEST_TYPE: raw, _RAW_RESPONSE_TYPE: raw, _TYPED_TYPE: DEFAULT_SERIALIZERS[_TYPED_TYPE]}
