"""Full rebuilds: the resources of a source are built and checked, then swapped in together, one run at a time."""

import time
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from cluster.client import gather_or_cancel
from indexer.after_publish import after_run
from indexer.changes.epochs import begin_due_epochs
from indexer.clock import ClockWatch
from indexer.documents.companies import BY_SOURCE, Companies, Coverage, CoverageRequest, known_companies
from indexer.errors import RefusedError, SourceError
from indexer.generations.candidate import BuildJob, Candidate, Gate, swap_together
from indexer.generations.checkpoint import BuildPhase
from indexer.generations.comparison import compare, exchange_for_copy
from indexer.generations.gates import (
    GateOfAll,
    dangling_references,
    losses_in_unreadable_lines,
    too_many_changes,
    too_many_dead_letters,
)
from indexer.generations.lifecycle import GenerationLifecycle, live_generations
from indexer.generations.preflight import preflight
from indexer.load.loader import Loading, load, load_here
from indexer.lock import open_run
from indexer.reporting.report import (
    DeadLetters,
    OnProgress,
    ResourceReport,
    RunStage,
    RunSummary,
    check_folder,
    ignore_progress,
)
from indexer.settings import IndexerContext
from indexer.source.lines import Source, require_present, row_notes
from indexer.troubles import end_replaced, raise_kept, report_standing
from mappings import COMPANY, RESOURCES, Resource

# What a candidate must pass, in this order, and then all candidates of a run together.
GATES: tuple[Gate, ...] = (losses_in_unreadable_lines, too_many_dead_letters, too_many_changes)
GATES_TOGETHER: tuple[GateOfAll, ...] = (dangling_references,)
# Room for merging a candidate, as a share of its size.
_MERGE_FACTOR = 1.2


@dataclass(frozen=True)
class RebuildRequest:
    """What a rebuild is to do: which of the resources, for which companies, with how many processes.

    `force` overrides the objections of gates and the preflight, and records what it overrode. With
    `questions_first_loads` a company's first load of a resource is refused if more than a tenth of its lines are bad.
    Of the resources `tolerated` any number of lines may be bad.
    """

    resources: Collection[Resource] = RESOURCES
    covered: CoverageRequest = BY_SOURCE
    force: bool = False
    processes: int = 1
    questions_first_loads: bool = False
    tolerated: Collection[Resource] = ()
    on_progress: OnProgress = ignore_progress


EVERYTHING = RebuildRequest()


async def reindex(context: IndexerContext, source: Source, request: RebuildRequest = EVERYTHING) -> RunSummary:
    """Build the requested resources that the source has, and swap all of them in together if each passes its gates.

    Only records of the companies that the source covers are replaced; the request may name them. If one resource is
    refused, nothing is swapped, and the candidates of all are kept. Raises SourceError, ElasticsearchError,
    RefusedError, ClockError or LockedError.
    """
    resources = [resource for resource in RESOURCES if resource in request.resources]
    present = require_present(source, resources)
    check_folder(context.settings.dead_letter_folder)
    summary, candidates = RunSummary([ResourceReport(resource.alias) for resource in resources]), list[Candidate]()
    on_wait, built = partial(_report_wait, summary.resources[0], request.on_progress), dict[str, str]()
    async with open_run(context, on_wait) as lock, _open_loading(context, request.processes) as loading:
        known = await known_companies(context, source, request.covered)
        _require_coverage(known)
        await ClockWatch(context).check()
        needed = await _needed_bytes(context, present, known.coverage)
        overridden = await preflight(context.cluster, needed_bytes=needed, force=request.force)
        summary.resources[0].overridden += overridden
        await begin_due_epochs(context, on_wait)
        for resource, report in zip(resources, summary.resources, strict=True):
            if resource not in present:
                report.stage = RunStage.ABSENT
                request.on_progress(report)
                continue
            with _opened_job(context, source, known, request, report) as job:
                job.built.update(built)
                candidate = await Candidate.opened(context, lock, job)
                async with candidate.recorded_refusal():
                    await load(candidate, loading)  # resumes from its checkpoint
                    if (live := candidate.progress.basis.live) is not None:
                        await compare(candidate, live)  # what the source lacks, and updates since
                    await candidate.pass_gates(GATES)
                candidates.append(candidate)
                built[resource.alias] = candidate.progress.candidate
                job.enter_stage(RunStage.BUILT)
            if resource is COMPANY and report.refusal and report.dead:
                break  # records of companies that cannot be read would all be dead letters
        if candidates and not summary.is_refused:
            await _pass_together(candidates)
        if candidates and not summary.is_refused:
            with suppress(RefusedError), _timed(candidates):
                for candidate in candidates:
                    await _finish(candidate)
                    await raise_kept(candidate)
                await swap_together(candidates)  # all or none, with their marks
                await end_replaced(context, candidates)
                await gather_or_cancel(*(candidate.conclude() for candidate in candidates))
                summary.notes += await after_run(context)
        summary.add_row_notes(row_notes(source))
        await report_standing(context, summary)
        for candidate in candidates:
            candidate.job.enter_stage(candidate.job.report.outcome(is_refused=summary.is_refused))
    return summary


def _report_wait(report: ResourceReport, on_progress: OnProgress, note: str) -> None:
    report.note = note
    on_progress(report)


@asynccontextmanager
async def _open_loading(context: IndexerContext, processes: int) -> AsyncIterator[Loading]:
    """Return how a run loads; with several `processes`, they end with it."""
    if processes == 1:
        yield load_here
        return
    from indexer.load.processes import LoaderPool  # noqa: PLC0415 - one process needs none of it

    async with LoaderPool(context, processes) as pool:
        yield pool.pieces


@contextmanager
def _opened_job(
    context: IndexerContext, source: Source, known: Companies, request: RebuildRequest, report: ResourceReport
) -> Iterator[BuildJob]:
    """Open the job of one resource; a refusal ends it, and is reported, not raised."""
    resource = next(declared for declared in RESOURCES if declared.alias == report.resource)
    settings, started, report.note = context.settings, time.monotonic(), None
    with closing(DeadLetters(settings.dead_letter_folder, resource.alias)) as letters:
        is_tolerated, show = resource in request.tolerated, request.on_progress
        limit, questions = (1.0, False) if is_tolerated else (settings.dead_letter_limit, request.questions_first_loads)
        job = BuildJob(resource, source, known, report, letters, limit, request.force, show, questions)
        try:
            yield job
        except RefusedError as refusal:
            report.refusal = str(refusal)
            job.enter_stage(RunStage.REFUSED)
        report.seconds = time.monotonic() - started


async def _pass_together(candidates: Sequence[Candidate]) -> None:
    """Let the candidates pass the gates of all together; refusals are reported and recorded."""
    for gate in GATES_TOGETHER:
        async for candidate, refusal in gate(candidates):
            with suppress(RefusedError):
                async with candidate.recorded_refusal():
                    candidate.job.refuse(refusal)


@contextmanager
def _timed(candidates: Sequence[Candidate]) -> Iterator[None]:
    started = time.monotonic()
    yield
    for candidate in candidates:
        candidate.job.report.seconds += time.monotonic() - started


async def _finish(candidate: Candidate) -> None:
    """Merge the candidate and give it its live settings, or let a copy that has the others' records take its place."""
    candidate.job.enter_stage(RunStage.FINISHING)
    progress = candidate.progress
    if not progress.others or progress.live is None:
        await candidate.lifecycle.finish(progress.candidate)
    elif progress.phase is BuildPhase.PASSED:
        async with candidate.recorded_refusal():
            await exchange_for_copy(candidate, progress.live)


def _require_coverage(known: Companies) -> None:
    """Raise SourceError for a source that names no company while some are live: it would change nothing."""
    if known.keys and known.coverage.companies == frozenset():
        raise SourceError("The source holds no company, so it covers none: name those that it is for with --company.")


async def _needed_bytes(context: IndexerContext, resources: Sequence[Resource], covered: Coverage) -> int:
    """Return the bytes that the candidates take, by the live records that the source covers.

    All candidates exist at once; they are merged one after the other. A copy of the other records takes no space.
    """
    sizes, live = list[float](), await live_generations(context)
    for resource in resources:
        if index := live.get(resource):
            lifecycle = GenerationLifecycle(context, resource)
            share = await lifecycle.count(index, covered.query) / max(1, await lifecycle.count(index))
            sizes.append(await lifecycle.size(index) * share)
    return int(sum(sizes) + max(sizes, default=0) * _MERGE_FACTOR)
