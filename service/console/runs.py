"""What the indexer last did to a resource and what it has not finished, as it keeps both beside its marks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from service.elastic import Engine


class Last(msgspec.Struct):
    """The last build or update.

    `at` is seconds since 1970. `lag` is the seconds that the latest change in it was old by then, None where it held
    none. `dead` counts bad records.
    """

    verb: str
    at: float
    lag: float | None
    dead: int


class Build(msgspec.Struct):
    """A build that is under way, was interrupted, or was refused: `refusal` says why."""

    candidate: str
    phase: str
    line: int = 0
    refusal: str | None = None


class Runs(msgspec.Struct):
    """Both of one resource; None is what there is not."""

    last: Last | None = None
    build: Build | None = None


async def read_runs(engine: Engine, control_index: str, alias: str) -> Runs:
    """Return what the indexer keeps of an alias; raise ApiError."""
    documents = (engine.document(control_index, f"{kind}-{alias}") for kind in ("last", "build"))
    last, build = await asyncio.gather(*documents)
    return Runs(
        last=None if last is None else _last(last),
        build=None if build is None else msgspec.convert(build["progress"], Build),
    )


def _last(entry: dict[str, Any]) -> Last:
    # Milliseconds, and 0 where there was no record.
    lag = max(0, entry["at"] - entry["newest"]) / 1000 if entry["newest"] else None
    return Last(verb=entry["verb"], at=entry["at"] / 1000, lag=lag, dead=entry["dead"])
