"""Parameters of the feed: tokens, names of resources, prefixes of buckets, and which records are kept."""

from __future__ import annotations

import re

from marshmallow import ValidationError

from mappings import RESOURCES, Resource
from service.feed.view import ON_MARKET
from service.parameters.fields import Choice, Parameter, Truth
from service.parameters.groups import ParentScope, Underscored

_ALIASES = {resource.alias: resource for resource in RESOURCES}
NAMES = tuple(_ALIASES)
# About 150 characters for a token of all resources.
LONGEST_TOKENS = 2_000
_TOKENS = re.compile(rf"[A-Za-z0-9_,-]{{1,{LONGEST_TOKENS}}}", re.ASCII)
MOST_PREFIXES = 64
PREFIXES = r"([0-9a-f]{2}(,[0-9a-f]{2}){0,63}|[0-9a-f]{4}(,[0-9a-f]{4}){0,63})"
_PREFIXES = re.compile(PREFIXES, re.ASCII)
# A company key, a colon, and an identifier of at most 128 characters.
FEED_KEY = r"[^\u0000-\u0020\u007f-\u009f:]{1,128}:[^\u0000-\u0020\u007f-\u009f]{1,128}"
_FEED_KEY = re.compile(FEED_KEY)


class Tokens(Parameter):
    """One or several tokens, separated by commas."""

    def read(self, text: str) -> list[str]:
        """Return the tokens, still encoded."""
        if not _TOKENS.fullmatch(text):
            raise ValidationError("must be a token as it was received, or several separated by commas.")
        return text.split(",")


class Resources(Parameter):
    """Names of resources, separated by commas."""

    def read(self, text: str) -> list[Resource]:
        """Return the resources, each once, in the order of the feed."""
        names = text.split(",")
        if len(names) > len(NAMES) or not {*names} <= _ALIASES.keys():
            raise ValidationError(f"must be of: {', '.join(NAMES)}, separated by commas.")
        return [resource for name, resource in _ALIASES.items() if name in names]


class Prefixes(Parameter):
    """Hexadecimal prefixes of buckets, all of the same length."""

    def read(self, text: str) -> list[str]:
        """Return the prefixes, each once, in order."""
        if not _PREFIXES.fullmatch(text):
            raise ValidationError(
                f"must be at most {MOST_PREFIXES} hexadecimal prefixes in small letters, all of 2 or all of 4 digits, "
                "separated by commas."
            )
        return sorted({*text.split(",")})


class FeedKey(Parameter):
    """The place of a record in a snapshot."""

    def read(self, text: str) -> tuple[str, str]:
        """Return company and identifier."""
        if not _FEED_KEY.fullmatch(text):
            raise ValidationError("must be the company and the id of a line as they were received, as company:id.")
        company, _, identifier = text.partition(":")
        return company, identifier


class Copied(ParentScope, Underscored):
    """Which records a consumer keeps a copy of."""

    market_status = Choice("Listings to keep, by market status.", ("all", ON_MARKET))
    include_deactivated = Truth("True keeps deactivated agents and offices too.")
