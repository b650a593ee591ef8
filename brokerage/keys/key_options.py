"""Option types of `brokerage keys`. An invalid value fails with a sentence that names valid ones."""

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

import rich_click as click

from mappings import FIELD_GROUPS
from service.keys.api_key import TIER_PATTERN

_COUNT = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_COMPANY = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_DURATION = re.compile(r"(?P<number>[0-9]{1,5})(?P<unit>[mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_FULL_KEY = re.compile(r"bk_(?P<key_id>[a-z0-9]{10})_.*", re.ASCII | re.DOTALL)
_MAX_TEXT_LENGTH = 500


class RateOption(click.ParamType[int]):
    """Requests per minute, or `unlimited`."""

    name = "N|unlimited"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, 0 for unlimited."""
        if value == "unlimited":
            return 0
        if not _COUNT.fullmatch(str(value)):
            self.fail(f"{value!r} is neither a number of requests per minute nor `unlimited`.", param, ctx)
        return int(value)


class TimestampOption(click.ParamType[dt.datetime]):
    """An ISO 8601 date or date-time; without an offset it is UTC."""

    name = "T"

    def convert(
        self, value: str | dt.datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.datetime:
        """Return the time with its offset."""
        try:
            moment = dt.datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not an ISO 8601 time such as 2027-06-30 or 2027-06-30T12:00:00Z.", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


class DurationOption(click.ParamType[dt.timedelta]):
    """A number of minutes, hours, days or weeks; or 0."""

    name = "DURATION|0"

    def convert(
        self, value: str | dt.timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.timedelta:
        """Return the duration."""
        if isinstance(value, dt.timedelta):
            return value
        match = _DURATION.fullmatch(value)
        if value != "0" and match is None:
            self.fail(f"{value!r} is not a duration such as 7d, 12h, 30m or 0.", param, ctx)
        return dt.timedelta(**{_UNITS[match["unit"]]: int(match["number"])}) if match else dt.timedelta()


class CompanyOption(click.ParamType[str]):
    """The key or the numeric id of a company."""

    name = "C"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value unchanged."""
        if not _COMPANY.fullmatch(value):
            self.fail(f"{value!r} is not a company: use its key (letters, digits, _ and -) or numeric id.", param, ctx)
        return value


class TierOption(click.ParamType[str]):
    """The name of a rate tier."""

    name = "T"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the value unchanged."""
        if not re.fullmatch(TIER_PATTERN, value):
            self.fail(f"{value!r} is not a tier name: use 1 to 32 of a-z, 0-9 and -.", param, ctx)
        return value


class FieldGroupsOption(click.ParamType["tuple[str, ...] | None"]):
    """`all`, `none`, or names of field groups separated by commas."""

    name = "LIST"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...] | None:
        """Return the sorted groups, None for all."""
        names = {part.strip() for part in value.split(",")} if isinstance(value, str) else set(value)
        if len(names) == 1 and names <= {"all", "none"}:
            return None if names == {"all"} else ()
        if unknown := names - FIELD_GROUPS:
            known = ", ".join(sorted(FIELD_GROUPS))
            self.fail(f"{min(unknown)!r} is not a field group: use all, none, or some of {known}.", param, ctx)
        return tuple(sorted(names))


class KeyIdOption(click.ParamType[str]):
    """The public id of a key."""

    name = "KEY_ID"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the id. A full key is rejected, and not repeated since it is a secret."""
        if match := _FULL_KEY.fullmatch(value):
            self.fail(f"That is a full key, which is a secret. Use its id: {match['key_id']}", param, ctx)
        return value


class TextOption(click.ParamType[str]):
    """A single line of text."""

    name = "TEXT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text. Control characters are rejected: they could move the cursor of a terminal."""
        if not value.isprintable() or len(value) > _MAX_TEXT_LENGTH:
            self.fail(f"It must be one line of at most {_MAX_TEXT_LENGTH} characters.", param, ctx)
        return value


def rate_grant(rate: int | None, tier: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the grant's members for a rate (0 for unlimited) or a tier; raise UsageError for both."""
    if rate is not None and tier is not None:
        raise click.UsageError("--rate and --tier are mutually exclusive: a tier sets the rate.")
    if tier is not None:
        yield "tier", tier
    if rate is not None:
        yield "rate", rate or None
