"""A pull: catch up, verify and export, once or continuously."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path

from brokerage_feed.copies.export import export_resource
from brokerage_feed.copy_comparison import compare_resource
from brokerage_feed.copy_updater import CopyUpdater
from brokerage_feed.errors import FeedUnavailable
from brokerage_feed.pull_status import PullStage, VerificationOutcome
from brokerage_feed.tables.columns import Spelling

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
    await export_all(pull, plan)
    for resource in pull.present:
        pull.statuses[resource].records = await asyncio.to_thread(pull.copy.count, resource)
        pull.report_stage(resource, PullStage.CURRENT)


async def pull_continuously(pull: CopyUpdater, plan: PullPlan) -> None:
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
                await export_all(pull, plan)
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


async def export_all(pull: CopyUpdater, plan: PullPlan) -> None:
    """Export the resources that have changed since the last export."""
    for resource in pull.present if plan.export_format else ():
        pull.report_stage(resource, PullStage.EXPORTING)
        form = plan.export_format or ""
        await asyncio.to_thread(export_resource, pull.copy, resource, plan.folder, form, plan.names)
        pull.report_stage(resource, PullStage.CURRENT)
