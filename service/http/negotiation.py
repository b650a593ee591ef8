"""Content negotiation: `Accept-Encoding` and `Accept` by RFC 9110, sections 12.5.3 and 12.5.1."""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

JSON = "application/json"
GEOJSON = "application/geo+json"

# All patterns match lower-cased headers. A weight has at most three decimals (RFC 9110, section 12.4.2).
_NAME = r"[!#$%&'*+\-.^_`|~0-9a-z]+"
_QUALITY = r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?"
_CODING = re.compile(rf"({_NAME})(?:[ \t]*;[ \t]*q=({_QUALITY}))?")
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_MEDIA_RANGE = re.compile(rf"({_NAME}/{_NAME})((?:[ \t]*;[ \t]*{_NAME}=(?:{_NAME}|{_QUOTED}))*)")
_WEIGHT = re.compile(r";[ \t]*q=([^; \t]*)")
# Old names of codings (RFC 9110, section 8.4.1.3).
_CODING_ALIASES = {"x-gzip": "gzip"}
# Clients send a handful of different headers; the bounds are for a client that makes them up.
_CACHED_HEADERS = 128
# Browsers send up to ten elements. Further ones are ignored, as malformed elements are.
MAX_ELEMENTS = 32


class ContentCoding(StrEnum):
    """The codings that responses are sent in, the best first, named as in `Content-Encoding`."""

    ZSTD = "zstd"
    GZIP = "gzip"
    IDENTITY = "identity"


def _elements(value: str) -> list[str]:
    return [element.strip(" \t") for element in value.lower().split(",", MAX_ELEMENTS)[:MAX_ELEMENTS]]


@lru_cache(maxsize=_CACHED_HEADERS)
def preferred_coding(accept: str) -> ContentCoding:
    """Return the coding that a client weighs highest; of equal ones the best.

    `accept` is the value of `Accept-Encoding`, with several lines joined by commas, or `""` if none was sent: such a
    client gets the identity coding. So does a client that accepts none of ours (`identity;q=0`, `*;q=0`): the RFC lets
    a server respond 415 or ignore the header, and a readable response helps more than a refusal.

    Malformed elements are ignored. A coding that is listed twice has the lower weight. `*` covers gzip, which every
    client that sends it can read, and identity; zstd must be named. Identity is always acceptable, but unless it is
    named it ranks below every coding that is.
    """
    weights = _coding_weights(accept)
    default = weights.get("*", 0.0)
    offered = {
        ContentCoding.ZSTD: weights.get(ContentCoding.ZSTD, 0.0),
        ContentCoding.GZIP: weights.get(ContentCoding.GZIP, default),
        ContentCoding.IDENTITY: weights.get(ContentCoding.IDENTITY, default),
    }
    best = max(offered, key=lambda coding: offered[coding])
    return best if offered[best] > 0 else ContentCoding.IDENTITY


def _coding_weights(accept: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for element in _elements(accept):
        if match := _CODING.fullmatch(element):
            name, weight = _CODING_ALIASES.get(match[1], match[1]), float(match[2] or 1)
            weights[name] = min(weight, weights.get(name, 1.0))
    return weights


@lru_cache(maxsize=_CACHED_HEADERS)
def prefers(accept: str, media_type: str) -> bool:
    """Return whether a client weighs a type above JSON.

    `accept` is the value of `Accept`, with several lines joined by commas, or `""` if none was sent. A client that
    weighs both alike gets JSON, and so does one that accepts neither: a readable response helps more than a refusal.

    The most specific range that matches a type counts; a range that is listed twice has the lower weight. Malformed
    elements, parameters other than the weight, and ranges with a quoted comma are ignored.
    """
    weights: dict[str, float] = {}
    for media_range in media_ranges(accept):
        weights[media_range.media_type] = min(media_range.weight, weights.get(media_range.media_type, 1.0))
    return _media_weight(weights, media_type) > _media_weight(weights, JSON)


def _media_weight(weights: dict[str, float], media_type: str) -> float:
    family = media_type.partition("/")[0]
    return next((weights[name] for name in (media_type, f"{family}/*", "*/*") if name in weights), 0.0)


class MediaRange(NamedTuple):
    """An element of `Accept`, in lower case: parameters without the weight."""

    media_type: str
    parameters: tuple[tuple[str, str], ...]
    weight: float


def media_ranges(accept: str) -> tuple[MediaRange, ...]:
    """Return the elements of `Accept`, without malformed ones and those with a quoted comma."""
    matches = filter(None, map(_MEDIA_RANGE.fullmatch, _elements(accept)))
    weighed = ((match[1], match[2], _quality(match[2])) for match in matches)
    return tuple(MediaRange(name, _parameters(rest), weight) for name, rest, weight in weighed if weight is not None)


def _parameters(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (part.strip(" \t").partition("=") for part in text.split(";")[1:])
    return tuple((name, value.strip('"')) for name, _, value in pairs if name != "q")


def _quality(parameters: str) -> float | None:
    """Return the weight among the parameters of a range: 1 without any, None if it is malformed."""
    if not (weight := _WEIGHT.search(parameters)):
        return 1.0
    return float(weight[1]) if re.fullmatch(_QUALITY, weight[1]) else None
