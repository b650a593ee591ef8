"""A run of a pull, from its options to its exit code."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from brokerage_feed.copies.copy_store import CopyStore
from brokerage_feed.copies.export import require_format
from brokerage_feed.copies.sqlite_copy import SqliteCopy
from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.errors import CopyError, CopyLocked, FeedError, FeedUnavailable, InvalidServiceUrl
from brokerage_feed.exit_codes import ExitCode, fail
from brokerage_feed.feed import Feed
from brokerage_feed.files.file_updater import FileUpdater
from brokerage_feed.folder_lock import lock_folder
from brokerage_feed.pull_loop import PullPlan, pull_continuously, pull_once
from brokerage_feed.pull_progress import PullDisplay
from brokerage_feed.pull_status import PullStatus, VerificationOutcome
from brokerage_feed.signals import cancel_on_signal
from brokerage_feed.tables.columns import Spelling

# Of files that are not loaded yet.
_FILES_FOLDER = ".files"


@dataclass(frozen=True)
class PullArguments:
    """The options of the command line."""

    directory: Path
    key: str = field(repr=False)
    url: str
    company: str | None
    parent_company: str | None
    resources: tuple[str, ...]
    market_status: str
    include_deactivated: bool
    export_format: str
    names: str
    is_once: bool
    is_verified: bool
    takes_files: bool
    attempts: int
    allow_http: bool
    verify_seconds: float
    export_seconds: float

    @property
    def scope(self) -> dict[str, str]:
        """The query parameters of every request, without those that have their default value."""
        given = {
            "platform_company_id": self.company or "",
            "parent_company_id": self.parent_company or "",
            "market_status": "" if self.market_status == "all" else self.market_status,
            "include_deactivated": "true" if self.include_deactivated else "",
        }
        return {name: value for name, value in given.items() if value}

    @property
    def copy_identity(self) -> str:
        """The service and scope of the copy: tokens of another service or scope are not valid for it."""
        return " ".join([self.url.rstrip("/").removesuffix("/v1"), *(f"{k}={v}" for k, v in self.scope.items())])

    @property
    def plan(self) -> PullPlan:
        """Verification and exports during the pull."""
        export_format = None if self.export_format == "sqlite" else self.export_format
        names = Spelling(self.names)
        return PullPlan(
            self.directory, export_format, names, self.is_verified, self.verify_seconds, self.export_seconds
        )


def run_pull(arguments: PullArguments, shown: PullDisplay) -> Sequence[PullStatus]:
    """Pull once, or until a signal arrives; return the status of each resource."""
    require_format(arguments.export_format)
    # Before the folder is created: a refused URL leaves nothing behind.
    feed = Feed(
        arguments.url, arguments.key, arguments.scope, attempts=arguments.attempts, allow_http=arguments.allow_http
    )
    with (
        lock_folder(arguments.directory),
        SqliteCopy(arguments.directory, arguments.resources, arguments.copy_identity) as copy,
    ):
        # Returns only after all threads that use the copy have ended.
        return asyncio.run(_run_pull(arguments, feed, copy, shown))


async def _run_pull(arguments: PullArguments, feed: Feed, copy: CopyStore, shown: PullDisplay) -> Sequence[PullStatus]:
    files = FileUpdater(feed, copy, arguments.directory / _FILES_FOLDER) if arguments.takes_files else None
    pull = CopyUpdater(feed, copy, arguments.resources, shown.show, files)
    feed.on_wait = pull.report_waiting
    with cancel_on_signal():
        async with feed:
            await (pull_once if arguments.is_once else pull_continuously)(pull, arguments.plan)
    return [*pull.statuses.values()]


@contextmanager
def exit_on_pull_error() -> Iterator[None]:
    """Turn errors of a pull into one sentence and an exit code."""
    try:
        yield
    except FeedUnavailable as error:
        fail(str(error), ExitCode.UNAVAILABLE)
    except CopyLocked as error:
        fail(str(error), ExitCode.LOCKED)
    except InvalidServiceUrl as error:
        fail(str(error), ExitCode.USAGE)
    except (FeedError, CopyError) as error:
        fail(str(error))


def exit_with_result(statuses: Sequence[PullStatus]) -> NoReturn:
    """Exit with the code of the worst outcome."""
    outcomes = {status.proof for status in statuses}
    if outcomes & {VerificationOutcome.DIFFERENT, VerificationOutcome.UNSETTLED}:
        raise SystemExit(ExitCode.FAILED)
    raise SystemExit(ExitCode.REPAIRED if VerificationOutcome.REPAIRED in outcomes else ExitCode.SUCCESS)
