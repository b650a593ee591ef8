"""Which content coding an answer gets: `Accept-Encoding` by RFC 9110, section 12.5.3."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multidict import MultiMapping

# A token, and perhaps its weight of at most three decimals (RFC 9110, sections 5.6.2 and 12.4.2), in small letters.
_ELEMENT = re.compile(
    r"([!#$%&'*+\-.^_`|~0-9a-z]+)(?:[ \t]*;[ \t]*q=(0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?))?",
)
# Old names that mean the same (RFC 9110, section 8.4.1.3).
_ALIASES = {"x-gzip": "gzip"}
# Clients send a handful of different lines; whoever makes up more fills at most this many places.
_REMEMBERED_LINES = 128


class Coding(StrEnum):
    """The codings that answers come in, the best first, named as in `Content-Encoding`."""

    ZSTD = "zstd"
    GZIP = "gzip"
    IDENTITY = "identity"


def chosen(headers: MultiMapping[str]) -> Coding:
    """Return the coding that the client who sent these headers weighs highest."""
    return choose(", ".join(headers.getall("Accept-Encoding", ())))


@lru_cache(maxsize=_REMEMBERED_LINES)
def choose(accept: str) -> Coding:
    """Return the coding that a client weighs highest; of equal ones the best.

    `accept` is the value of `Accept-Encoding`, several lines of it joined by commas, or `""` where none was sent: such
    a client gets the answer as it is. So does one that takes nothing we have (`identity;q=0`, `*;q=0`): the RFC lets a
    server answer 415 or ignore the line, and an answer that can be read helps more than a refusal.

    What is not written by the grammar is passed over. A coding named twice has the lower weight. `*` stands for gzip,
    which every client that says so can read, and for the answer as it is; zstd must be named. The answer as it is may
    always be sent, but unless it is named it comes after whatever the client named.
    """
    weights = _weights(accept)
    rest = weights.get("*", 0.0)
    offered = {
        Coding.ZSTD: weights.get(Coding.ZSTD, 0.0),
        Coding.GZIP: weights.get(Coding.GZIP, rest),
        Coding.IDENTITY: weights.get(Coding.IDENTITY, rest),
    }
    best = max(offered, key=lambda coding: offered[coding])
    return best if offered[best] > 0 else Coding.IDENTITY


def _weights(accept: str) -> dict[str, float]:
    weights: dict[str, float] = {}
    for element in accept.lower().split(","):
        if match := _ELEMENT.fullmatch(element.strip(" \t")):
            name, weight = _ALIASES.get(match[1], match[1]), float(match[2] or 1)
            weights[name] = min(weight, weights.get(name, 1.0))
    return weights
