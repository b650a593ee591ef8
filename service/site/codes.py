"""The problems that answers can be, from the classes that declare them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator


def codes() -> dict[str, type[ApiError]]:
    """Return the code of every problem of the service with a class that has it, by status."""
    kinds = sorted(_kinds(ApiError), key=lambda kind: (kind.status, kind.code))
    return {kind.code: kind for kind in kinds if kind.__module__.startswith("service.")}


def table() -> str:
    """Return the table of the problems; each leads to the section that bears its code."""
    rows = (f"| {kind.status} | [`{code}`](#{code}) | {kind.title} |" for code, kind in codes().items())
    return "\n".join(("| Status | Code | Title |", "|---|---|---|", *rows))


def _kinds(kind: type[ApiError]) -> Iterator[type[ApiError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _kinds(narrower)
