"""Deprecations of operations and parameters, declared once.

Responses carry `Deprecation` (RFC 9745), `Sunset` (RFC 8594) and `Link`, the OpenAPI document says `deprecated`, and
the log names each key that still uses a deprecated operation or parameter once.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import TYPE_CHECKING

from service.http.headers import EXTRA_HEADERS, LINK

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from aiohttp import web

DEPRECATION_HEADER = "Deprecation"
SUNSET_HEADER = "Sunset"

_log = logging.getLogger("service")


@dataclass(frozen=True, kw_only=True)
class Deprecation:
    """The first day of a deprecation, the day from which the feature may be gone, and the migration guide's URL."""

    since: dt.date
    sunset: dt.date | None = None
    link: str

    def __post_init__(self) -> None:
        """Raise ValueError if the sunset is before the deprecation (RFC 9745, section 4)."""
        if self.sunset is not None and self.sunset < self.since:
            raise ValueError(f"the sunset {self.sunset} is before the deprecation of {self.since}")

    @property
    def sentence(self) -> str:
        """The announcement as a sentence."""
        sunset = f", may be gone from {self.sunset} on" if self.sunset else ""
        return f"Deprecated since {self.since}{sunset}: {self.link}."


def deprecation_headers(announced: Sequence[Deprecation]) -> dict[str, str]:
    """Return the headers for one or more deprecations: the earliest of their days, and the links of all."""
    headers = {
        DEPRECATION_HEADER: f"@{int(_midnight(min(deprecation.since for deprecation in announced)).timestamp())}"
    }
    if sunsets := [deprecation.sunset for deprecation in announced if deprecation.sunset]:
        headers[SUNSET_HEADER] = format_datetime(_midnight(min(sunsets)), usegmt=True)
    links = dict.fromkeys(link for deprecation in announced for link in _links(deprecation))
    return headers | {LINK: ", ".join(links)}


def _links(deprecation: Deprecation) -> list[str]:
    relations = ("deprecation", "sunset") if deprecation.sunset else ("deprecation",)
    return [f'<{deprecation.link}>; rel="{relation}"; type="text/html"' for relation in relations]


def _midnight(day: dt.date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


@dataclass(frozen=True)
class OperationDeprecations:
    """The deprecations of an operation, by its path, and of its parameters, by name."""

    path: str
    operation: Deprecation | None
    parameters: Mapping[str, Deprecation]

    def announce(self, request: web.Request) -> dict[str, Deprecation]:
        """Add the headers to the response if a request uses anything deprecated; return what it uses."""
        used = {f"{self.path}?{name}": self.parameters[name] for name in self.parameters.keys() & request.query.keys()}
        if self.operation is not None:
            used[self.path] = self.operation
        if used:
            request[EXTRA_HEADERS].update(deprecation_headers(tuple(used.values())))
        return used


class DeprecationLog:
    """Logs the use of deprecated features, once per key and feature in the lifetime of a process."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str]] = set()

    def log_first_use(self, key_id: str, used: Mapping[str, Deprecation]) -> None:
        """Log the deprecated features that a key uses for the first time."""
        for feature, deprecation in used.items():
            if (key_id, feature) not in self._logged:
                self._logged.add((key_id, feature))
                _log.warning("Key %s uses %s. %s", key_id, feature, deprecation.sentence)
