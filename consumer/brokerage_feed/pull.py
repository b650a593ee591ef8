"""A pull: catch up, verify and export, once or continuously, from its options to its exit code."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from brokerage_feed.copy_comparison import compare_resource
from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.errors import CopyError, CopyLocked, FeedError, FeedUnavailable, InvalidServiceUrl
from brokerage_feed.export import export_resource, require_format
from brokerage_feed.feed import Feed
from brokerage_feed.limits import FeedLimits
from brokerage_feed.private_files import lock_folder
from brokerage_feed.published_files import FileUpdater
from brokerage_feed.pull_progress import PullDisplay, PullStage, PullStatus, VerificationOutcome
from brokerage_feed.sqlite_copy import SqliteCopy
from brokerage_feed.tables import Spelling
from brokerage_feed.terminal import ExitCode, cancel_on_signal, fail

_WAIT_SECONDS = 30
# Between two rounds, in case the service does not hold long polls.
_MIN_INTERVAL_SECONDS = 1.0
_UNAVAILABLE_SECONDS = 30.0


@dataclass(frozen=True)
class PullPlan:
    """The exports and verifications of a pull, and their intervals in seconds while following changes."""

    folder: Path
    export_format: str | None = None
    names: Spelling = Spelling.UNDERSCORED
    is_verified: bool = True
    verify_seconds: float = 3600.0
    export_seconds: float = 300.0


async def pull_once(pull: CopyUpdater, plan: PullPlan) -> None:
    """Bring the copy up to date; verify and export it as planned. Raises FeedUnavailable if there is none."""
    await pull.catch_up()
    if not pull.present:
        raise FeedUnavailable(f"The service has no data yet of {', '.join(pull.resources)}.")
    if plan.is_verified:
        await verify(pull)
    await _export_all(pull, plan)
    for resource in pull.present:
        pull.statuses[resource].records = await asyncio.to_thread(pull.copy.count, resource)
        pull.report_stage(resource, PullStage.CURRENT)


async def _pull_continuously(pull: CopyUpdater, plan: PullPlan) -> None:
    """Pull once, then follow the changes until cancelled. Retry while the service is unavailable."""
    verified = exported = -float("inf")
    while True:
        began = time.monotonic()
        try:
            await pull.catch_up(_WAIT_SECONDS)
            if plan.is_verified and began - verified >= plan.verify_seconds:
                await verify(pull)
                verified = time.monotonic()
            if began - exported >= plan.export_seconds:
                await _export_all(pull, plan)
                exported = time.monotonic()
        except FeedUnavailable as error:
            pull.report_waiting(_UNAVAILABLE_SECONDS, str(error))
            await asyncio.sleep(_UNAVAILABLE_SECONDS)
        await asyncio.sleep(began + _MIN_INTERVAL_SECONDS - time.monotonic())


async def verify(pull: CopyUpdater) -> None:
    """Compare every resource with the service, and take a new snapshot of those that differ."""
    for resource in pull.present:
        pull.report_stage(resource, PullStage.VERIFYING)
        pull.statuses[resource].proof = await _verify_resource(pull, resource)
        pull.report_stage(resource, PullStage.CURRENT)


async def _verify_resource(pull: CopyUpdater, resource: str) -> VerificationOutcome:
    differences = await compare_resource(pull, resource)
    pull.statuses[resource].different = differences.different
    if not differences.different:
        return VerificationOutcome.UNSETTLED if differences.unsettled else VerificationOutcome.EQUAL
    await pull.take_snapshot(resource)
    remaining = await compare_resource(pull, resource)
    return VerificationOutcome.DIFFERENT if remaining.different else VerificationOutcome.REPAIRED


async def _export_all(pull: CopyUpdater, plan: PullPlan) -> None:
    """Export the resources that have changed since the last export."""
    for resource in pull.present if plan.export_format else ():
        pull.report_stage(resource, PullStage.EXPORTING)
        form = plan.export_format or ""
        await asyncio.to_thread(export_resource, pull.copy, resource, plan.folder, form, plan.names)
        pull.report_stage(resource, PullStage.CURRENT)


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
    max_file_mib: int
    max_total_gib: int
    min_free_mib: int
    file_hosts: str

    @property
    def limits(self) -> FeedLimits:
        hosts = frozenset(filter(None, (host.strip().lower() for host in self.file_hosts.split(","))))
        return FeedLimits(self.max_file_mib, self.max_total_gib, self.min_free_mib, hosts)

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
        arguments.url,
        arguments.key,
        arguments.scope,
        attempts=arguments.attempts,
        allow_http=arguments.allow_http,
        limits=arguments.limits,
    )
    with (
        lock_folder(arguments.directory),
        SqliteCopy(arguments.directory, arguments.resources, arguments.copy_identity, feed.limits) as copy,
    ):
        # Returns only after all threads that use the copy have ended.
        return asyncio.run(_run_pull(arguments, feed, copy, shown))


async def _run_pull(arguments: PullArguments, feed: Feed, copy: SqliteCopy, shown: PullDisplay) -> Sequence[PullStatus]:
    files = FileUpdater(feed, copy, arguments.directory / _FILES_FOLDER) if arguments.takes_files else None
    pull = CopyUpdater(feed, copy, arguments.resources, shown.show, files)
    feed.on_wait = pull.report_waiting
    with cancel_on_signal():
        async with feed:
            await (pull_once if arguments.is_once else _pull_continuously)(pull, arguments.plan)
    return [*pull.statuses.values()]


@contextmanager
def exit_on_pull_error() -> Iterator[None]:
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
