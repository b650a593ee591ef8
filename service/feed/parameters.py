"""Parameters of the feed: tokens, resource names, bucket prefixes and filters."""

import re

from marshmallow import ValidationError

from mappings import RESOURCES, Resource
from mappings.resource import DETAILS
from service.errors import NotFound
from service.feed.entries import ON_MARKET
from service.parameters import Boolean, Choice, Parameter, ParentScope, UnderscoreOption
from service.request_context import RequestContext

_RESOURCE_BY_ALIAS = {resource.alias: resource for resource in RESOURCES}
RESOURCE_NAMES = tuple(_RESOURCE_BY_ALIAS)
# Six tokens of one resource each have 1,000 characters, one of all resources 640.
MAX_TOKENS_LENGTH = 2_000
_TOKENS_REGEX = re.compile(rf"[A-Za-z0-9_,-]{{1,{MAX_TOKENS_LENGTH}}}", re.ASCII)
MAX_PREFIXES = 64
PREFIXES_PATTERN = r"([0-9a-f]{2}(,[0-9a-f]{2}){0,63}|[0-9a-f]{4}(,[0-9a-f]{4}){0,63})"
_PREFIXES_REGEX = re.compile(PREFIXES_PATTERN, re.ASCII)
# A company key, a colon, and an identifier of at most 128 characters.
FEED_KEY_PATTERN = r"[A-Za-z0-9_-]{1,64}:[^\u0000-\u0020\u007f]{1,128}"
_FEED_KEY_REGEX = re.compile(FEED_KEY_PATTERN)


class FeedTokens(Parameter):
    """One or several tokens, separated by commas."""

    def parse_text(self, text: str) -> list[str]:
        """Return the tokens, still encoded."""
        if not _TOKENS_REGEX.fullmatch(text):
            raise ValidationError("must be a token exactly as received, or several separated by commas.")
        return text.split(",")


class ResourceList(Parameter):
    """Resource names, separated by commas."""

    def parse_text(self, text: str) -> list[Resource]:
        """Return the distinct resources, in feed order."""
        names = text.split(",")
        if len(names) > len(RESOURCE_NAMES) or not {*names} <= _RESOURCE_BY_ALIAS.keys():
            raise ValidationError(f"must be one or more of: {', '.join(RESOURCE_NAMES)}, separated by commas.")
        return [resource for name, resource in _RESOURCE_BY_ALIAS.items() if name in names]


_GROUPS = dict.fromkeys(group.name for resource in reversed(RESOURCES) for group in resource.change_groups.values())
CHANGE_GROUPS = (*(name for name in _GROUPS if name != DETAILS), DETAILS)


class ChangeGroups(Parameter):
    """Names of groups of fields, separated by commas."""

    def parse_text(self, text: str) -> frozenset[str]:
        names = frozenset(text.split(","))
        if not names <= {*CHANGE_GROUPS}:
            raise ValidationError(f"must be one or more of: {', '.join(CHANGE_GROUPS)}, separated by commas.")
        return names


class BucketPrefixes(Parameter):
    """Hexadecimal bucket prefixes, all of the same length."""

    def parse_text(self, text: str) -> list[str]:
        """Return the distinct prefixes, sorted."""
        if not _PREFIXES_REGEX.fullmatch(text):
            raise ValidationError(
                f"must be at most {MAX_PREFIXES} lowercase hexadecimal prefixes, all of 2 or all of 4 digits, "
                "separated by commas."
            )
        return sorted({*text.split(",")})


class FeedKeyParameter(Parameter):
    """The position of a record in a snapshot."""

    def parse_text(self, text: str) -> tuple[str, str]:
        """Return company and identifier."""
        if not _FEED_KEY_REGEX.fullmatch(text):
            raise ValidationError("must be the company and id of a received line, as company:id.")
        company, _, identifier = text.partition(":")
        return company, identifier


class FeedFilters(ParentScope, UnderscoreOption):
    """The records that a consumer replicates."""

    market_status = Choice("Listings to include, by market status.", ("all", ON_MARKET))
    include_deactivated = Boolean("True includes deactivated agents and offices.")


def resource_from_path(call: RequestContext) -> Resource:
    """Return the resource that the path names, or raise NotFound."""
    name = call.client.path["resource"]
    if name not in _RESOURCE_BY_ALIAS:
        raise NotFound(f"There is no resource {name!r}; the resources are {', '.join(RESOURCE_NAMES)}.")
    return _RESOURCE_BY_ALIAS[name]
