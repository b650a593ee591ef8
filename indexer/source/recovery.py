"""Best-effort reading of damaged lines: what they still say, although they are not valid JSON."""

import re
from functools import cache

import orjson

# An envelope has each at most once, so a damaged line that has one more often is several envelopes that ran together.
_ENVELOPE_KEYS = ("record", "updated_at", "platform_company_id", "resource", "deleted")
# Nor does an object begin inside a value or a key.
_TORN = re.compile(rb'[^\s,:\[}]\s*\{"')
# The longest text that is read, escaped.
_MAX_BYTES = 1600


def recovered_values(data: bytes, member: str) -> frozenset[str]:
    """Return the texts and whole numbers that a line has for a member, at any depth.

    A key inside a string does not count: its quotes are escaped.
    """
    return frozenset(filter(None, map(_text, _pattern(member).findall(data))))


def recovered_identifiers(data: bytes, member: str) -> frozenset[str] | None:
    """Return the identifiers in a damaged line; None if it may have been about more records than it names.

    Two lines that ran into each other are about two records.
    """
    identifiers = recovered_values(data, member)
    envelopes = max(len(_key(key).findall(data)) for key in _ENVELOPE_KEYS if key != member)
    return identifiers if len(identifiers) >= max(envelopes + len(_TORN.findall(data)), 1) else None


@cache
def _key(member: str) -> re.Pattern[bytes]:
    return re.compile(rb'"%b"\s*:' % re.escape(member.encode()))


@cache
def _pattern(member: str) -> re.Pattern[bytes]:
    text = rb'"(?:[^"\\\x00-\x1f]|\\.){0,%d}"' % _MAX_BYTES
    return re.compile(rb'"%b"\s*:\s*(%b|-?[0-9]{1,128}(?=[\s,}\]]))' % (re.escape(member.encode()), text))


def _text(value: bytes) -> str | None:
    try:
        return str(orjson.loads(value))
    except orjson.JSONDecodeError:
        return None
