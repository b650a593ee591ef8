"""Which media type an answer gets: `Accept` by RFC 9110, section 12.5.1."""

from __future__ import annotations

import re
from functools import lru_cache

JSON = "application/json"
GEOJSON = "application/geo+json"

_WORD = r"[!#$%&'*+\-.^_`|~0-9a-z]+"
_QUOTED = r'"(?:[^"\\]|\\.)*"'
# A range and its parameters, in small letters.
_RANGE = re.compile(rf"({_WORD}/{_WORD})((?:[ \t]*;[ \t]*{_WORD}=(?:{_WORD}|{_QUOTED}))*)")
_WEIGHT = re.compile(r";[ \t]*q=([^; \t]*)")
_QUALITY = re.compile(r"0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?")
# Clients send a handful of different lines; whoever makes up more fills at most this many places.
_REMEMBERED_LINES = 128


@lru_cache(maxsize=_REMEMBERED_LINES)
def prefers_geojson(accept: str) -> bool:
    """Tell whether a client weighs GeoJSON above JSON.

    `accept` is the value of `Accept`, several lines of it joined by commas, or `""` where none was sent. JSON is for
    all who weigh both alike, and for those who take neither: an answer that can be read helps more than a refusal.

    Of the ranges that hold a type the narrowest counts; one that is named twice has the lower weight. What is not
    written by the grammar is passed over, and so are parameters but the weight and ranges with a quoted comma.
    """
    weights = _weights(accept)
    return _weight(weights, GEOJSON) > _weight(weights, JSON)


def _weight(weights: dict[str, float], media_type: str) -> float:
    family = media_type.partition("/")[0]
    return next((weights[each] for each in (media_type, f"{family}/*", "*/*") if each in weights), 0.0)


def _weights(accept: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for element in accept.lower().split(","):
        match = _RANGE.fullmatch(element.strip(" \t"))
        if match and (weight := _quality(match[2])) is not None:
            weights[match[1]] = min(weight, weights.get(match[1], 1.0))
    return weights


def _quality(parameters: str) -> float | None:
    """Return the weight among the parameters of a range: 1 where there is none, None where it is no weight."""
    if not (said := _WEIGHT.search(parameters)):
        return 1.0
    return float(said[1]) if _QUALITY.fullmatch(said[1]) else None
