"""What the options of `brokerage keys` take, each refused with a sentence that says what it would have taken."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import rich_click as click

from mappings import FIELD_GROUPS
from service.keys.record import TIER

if TYPE_CHECKING:
    from collections.abc import Iterator

_COUNT = re.compile(r"[1-9][0-9]{0,6}", re.ASCII)
_COMPANY = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_DURATION = re.compile(r"(?P<number>[0-9]{1,5})(?P<unit>[mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WHOLE_KEY = re.compile(r"bk_(?P<key_id>[a-z0-9]{10})_.*", re.ASCII | re.DOTALL)
_LONGEST_TEXT = 500


class Rate(click.ParamType[int]):
    """Requests a minute, or `unlimited`."""

    name = "N|unlimited"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; 0 stands for unlimited."""
        if value == "unlimited":
            return 0
        if not _COUNT.fullmatch(str(value)):
            self.fail(f"{value!r} is neither a number of requests a minute nor `unlimited`.", param, ctx)
        return int(value)


class Moment(click.ParamType[dt.datetime]):
    """An ISO 8601 date or date-time; without an offset it is UTC."""

    name = "T"

    def convert(
        self, value: str | dt.datetime, param: click.Parameter | None, ctx: click.Context | None
    ) -> dt.datetime:
        """Return the moment with its offset."""
        try:
            moment = dt.datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no ISO 8601 time, for example 2027-06-30 or 2027-06-30T12:00:00Z.", param, ctx)
        return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


class Duration(click.ParamType[dt.timedelta]):
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
            self.fail(f"{value!r} is no duration, for example 7d, 12h, 30m or 0.", param, ctx)
        return dt.timedelta(**{_UNITS[match["unit"]]: int(match["number"])}) if match else dt.timedelta()


class Company(click.ParamType[str]):
    """The key or the numeric id of a company."""

    name = "C"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it as it is."""
        if not _COMPANY.fullmatch(value):
            self.fail(f"{value!r} is not a company: use its key (letters, digits, _ and -) or numeric id.", param, ctx)
        return value


class Tier(click.ParamType[str]):
    """The name of a rate tier."""

    name = "T"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it as it is."""
        if not re.fullmatch(TIER, value):
            self.fail(f"{value!r} is no name of a tier: 1 to 32 of a-z, 0-9 and -.", param, ctx)
        return value


class Fields(click.ParamType["tuple[str, ...] | None"]):
    """`all`, `none`, or names of field groups separated by commas."""

    name = "LIST"

    def convert(
        self, value: str | tuple[str, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...] | None:
        """Return the groups in order; None stands for all."""
        names = {part.strip() for part in value.split(",")} if isinstance(value, str) else set(value)
        if len(names) == 1 and names <= {"all", "none"}:
            return None if names == {"all"} else ()
        if unknown := names - FIELD_GROUPS:
            known = ", ".join(sorted(FIELD_GROUPS))
            self.fail(f"{min(unknown)!r} is no field group: give all, none, or some of {known}.", param, ctx)
        return tuple(sorted(names))


class KeyId(click.ParamType[str]):
    """The public id of a key."""

    name = "KEY_ID"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it; a whole key is refused and not repeated."""
        if match := _WHOLE_KEY.fullmatch(value):
            self.fail(f"That is a whole key, which is a secret. Give its id: {match['key_id']}", param, ctx)
        return value


class Words(click.ParamType[str]):
    """A text of one line, for people."""

    name = "TEXT"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return it; what could move the cursor of a terminal is refused."""
        if not value.isprintable() or len(value) > _LONGEST_TEXT:
            self.fail(f"It must be one line of at most {_LONGEST_TEXT} characters.", param, ctx)
        return value


def limits(rate: int | None, tier: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the members of a grant that a rate, 0 for unlimited, or a tier makes; raise UsageError for both."""
    if rate is not None and tier is not None:
        raise click.UsageError("--rate and --tier exclude each other: the tier says the rate.")
    if tier is not None:
        yield "tier", tier
    if rate is not None:
        yield "rate", rate or None
