"""What is going away: announced once on an operation or a parameter, and told from there in every place.

Answers carry `Deprecation` (RFC 9745), `Sunset` (RFC 8594) and `Link`, the OpenAPI document says `deprecated`, and the
log says once for each key who still asks for it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING

from service.headers import FURTHER, LINK

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from aiohttp import web

DEPRECATION = "Deprecation"
SUNSET = "Sunset"

_log = logging.getLogger("service")


@dataclass(frozen=True, kw_only=True)
class Deprecation:
    """Since which day something is deprecated, from which day on it may be gone, and the page that says what to do."""

    since: dt.date
    sunset: dt.date | None = None
    link: str

    def __post_init__(self) -> None:
        """Raise ValueError where it would be gone before it is deprecated (RFC 9745, section 4)."""
        if self.sunset is not None and self.sunset < self.since:
            raise ValueError(f"the sunset {self.sunset} is before the deprecation of {self.since}")

    @property
    def sentence(self) -> str:
        """The announcement for people."""
        ends = f", may be gone from {self.sunset} on" if self.sunset else ""
        return f"Deprecated since {self.since}{ends}: {self.link}."


def headers(announced: Sequence[Deprecation]) -> dict[str, str]:
    """Return the headers that tell of these, at least one: the earliest of their days, and the pages of all."""
    told = {DEPRECATION: f"@{int(_midnight(min(each.since for each in announced)).timestamp())}"}
    if sunsets := [each.sunset for each in announced if each.sunset]:
        told[SUNSET] = format_datetime(_midnight(min(sunsets)), usegmt=True)
    return told | {LINK: ", ".join(dict.fromkeys(link for each in announced for link in _links(each)))}


def _links(announced: Deprecation) -> list[str]:
    relations = ("deprecation", "sunset") if announced.sunset else ("deprecation",)
    return [f'<{announced.link}>; rel="{relation}"; type="text/html"' for relation in relations]


def _midnight(day: dt.date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


@dataclass(frozen=True)
class Announcements:
    """What of an operation is deprecated: itself, under its path, and parameters, under their names."""

    path: str
    itself: Deprecation | None
    parameters: Mapping[str, Deprecation]

    def tell(self, request: web.Request) -> dict[str, Deprecation]:
        """Let the answer to a request carry the headers, where it uses what is deprecated; return what that is."""
        used = {f"{self.path}?{name}": self.parameters[name] for name in self.parameters.keys() & request.query.keys()}
        if self.itself is not None:
            used[self.path] = self.itself
        if used:
            request[FURTHER].update(headers(tuple(used.values())))
        return used


class Users:
    """Who asks for what is deprecated: a line in the log for each key and thing, once in the life of a process."""

    def __init__(self) -> None:
        """Begin with nobody."""
        self._named: set[tuple[str, str]] = set()

    def name(self, key_id: str, used: Mapping[str, Deprecation]) -> None:
        """Log what a key uses for the first time."""
        for thing, announced in used.items():
            if (key_id, thing) not in self._named:
                self._named.add((key_id, thing))
                _log.warning("Key %s uses %s. %s", key_id, thing, announced.sentence)
