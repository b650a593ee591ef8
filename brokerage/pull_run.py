"""One run of `brokerage pull`, from its options to its exit code."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn

from brokerage.failures import Exit, fail
from brokerage.stopping import cancelled_by_signals
from consumer.copies.export import require
from consumer.copies.sqlite import SqliteCopy
from consumer.errors import Away, CopyError, FeedError, Locked
from consumer.feed import Feed
from consumer.lock import only_one
from consumer.pull import Pull
from consumer.rounds import Plan, follow, once
from consumer.standing import Proof

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from brokerage.pull_settings import PullSettings
    from consumer.copies.copy import Copy
    from consumer.progress import Bars, JsonLines
    from consumer.standing import Standing


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line."""

    directory: Path
    key: str = field(repr=False)
    settings: PullSettings
    url: str
    company: str | None
    parent_company: str | None
    resources: tuple[str, ...]
    market_status: str
    include_deactivated: bool
    form: str
    is_once: bool
    is_verified: bool

    @property
    def scope(self) -> dict[str, str]:
        """The parameters of every request; what is as it is by default is not sent."""
        given = {
            "platform_company_id": self.company or "",
            "parent_company_id": self.parent_company or "",
            "market_status": "" if self.market_status == "all" else self.market_status,
            "include_deactivated": "true" if self.include_deactivated else "",
        }
        return {name: value for name, value in given.items() if value}

    @property
    def choices(self) -> str:
        """What the copy is one of: a token of one service or scope means nothing to another."""
        return " ".join([self.url.rstrip("/").removesuffix("/v1"), *(f"{k}={v}" for k, v in self.scope.items())])

    @property
    def plan(self) -> Plan:
        """What is done beside pulling."""
        form = None if self.form == "sqlite" else self.form
        return Plan(self.directory, form, self.is_verified, self.settings.verify_seconds, self.settings.export_seconds)


def pulled(wanted: Wanted, shown: Bars | JsonLines) -> Sequence[Standing]:
    """Pull once, or until a signal comes; return what came of each resource."""
    require(wanted.form)
    with only_one(wanted.directory), SqliteCopy(wanted.directory, wanted.resources, wanted.choices) as copy:
        # It returns when the threads that use the copy have ended.
        return asyncio.run(_pulled(wanted, copy, shown))


async def _pulled(wanted: Wanted, copy: Copy, shown: Bars | JsonLines) -> Sequence[Standing]:
    feed = Feed(wanted.url, wanted.key, wanted.scope, attempts=wanted.settings.attempts)
    pull = Pull(feed, copy, wanted.resources, shown.show)
    feed.on_wait = pull.say_waiting
    with cancelled_by_signals():
        async with feed:
            await (once if wanted.is_once else follow)(pull, wanted.plan)
    return [*pull.standings.values()]


@contextmanager
def explained() -> Iterator[None]:
    """Turn what can stop a pull into its sentence and its exit code."""
    try:
        yield
    except Away as error:
        fail(str(error), Exit.ENGINE_AWAY)
    except Locked as error:
        fail(str(error), Exit.LOCKED)
    except (FeedError, CopyError) as error:
        fail(str(error))


def end(standings: Sequence[Standing]) -> NoReturn:
    """End with the code of the worst that was found."""
    proofs = {standing.proof for standing in standings}
    if proofs & {Proof.DIFFERENT, Proof.UNSETTLED}:
        raise SystemExit(Exit.FAILED)
    raise SystemExit(Exit.MENDED if Proof.MENDED in proofs else Exit.SUCCESS)
