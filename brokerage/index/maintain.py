"""`brokerage index status`, `compact`, `repair-clock`, `rollback`, `restored` and `prune`.

`status` shows what the indices hold, and what state they are in. The last three ask before they change what is served
or kept.
"""

import datetime as dt
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial

import orjson
import rich_click as click
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

import indexer
from brokerage.help import INDEX_EXITS, epilog
from brokerage.index.runner import (
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    YES_OPTION,
    print_error_line,
    print_note,
    run_on_cluster,
)
from brokerage.tables import plain_table, print_table
from brokerage_feed.terminal import echo
from cluster.control_index import troubles_sentence
from cluster.index_state import IndexFragmentation, fragmentation_sentence
from cluster.terminal import counted
from indexer import ResourceStatus
from indexer.generations.checkpoint import BuildProgress
from indexer.reso.replication_status import ReplicationStatus


@click.command(epilog=epilog("brokerage index status", "brokerage index status --json", exits=INDEX_EXITS))
@JSON_OPTION
def status(*, as_json: bool) -> None:
    """Show versions, counts, sizes, fragmentation, mappings, last runs and unfinished builds of each resource."""
    states = run_on_cluster(indexer.status)
    if as_json:
        echo(orjson.dumps([asdict(state) for state in states], default=_plain))
        return
    replications = {source.name: source for state in states for source in state.sources}
    for table in (*_status_tables(states), *_replication_table(replications.values())):
        print_table(table)
        echo()
    for note in status_notes(states):
        echo(note)


def _plain(value: object) -> object:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]


_SERVED = ("Resource", "Live", "Kept", "Records", "Deleted", "Shards", "Size", "Fragmented", "Segments", "Mapping")
_LAST_RUN = ("Resource", "Watermark, UTC", "Last run", "At, UTC", "Behind", "Read", "Bad")


def _status_tables(states: Iterable[ResourceStatus]) -> tuple[Table, Table]:
    served, last_runs = plain_table(*_SERVED, folded=()), plain_table(*_LAST_RUN, folded=())
    for state in states:
        served.add_row(*_served(state))
        last_runs.add_row(*_last_run(state))
    return served, last_runs


def _served(state: ResourceStatus) -> tuple[str, ...]:
    kept = ", ".join(_generation_number(state, index) for index in state.others)
    if state.live is None:
        return (state.resource, "never loaded" if state.mark is None else "missing", kept)
    return (
        state.resource,
        _generation_number(state, state.live),
        kept,
        _counted(state.documents),
        _counted(state.tombstones),
        f"{state.shards:,}",
        decimal(state.size),
        "" if state.fragmentation is None else f"{state.fragmentation.deleted:.1%}",
        "" if state.fragmentation is None else f"{state.fragmentation.segments:,}",
        "current" if state.is_current else "stale",
    )


def _counted(number: int | None) -> str:
    return "unknown" if number is None else f"{number:,}"


def _last_run(state: ResourceStatus) -> tuple[str, ...]:
    mark = "" if state.mark is None else _short_time(state.mark)
    if state.last is None:
        return (state.resource, mark)
    # The age of the newest record when the run made it visible.
    behind = str(dt.timedelta(seconds=max(0, state.last.at - state.last.newest) // 1000)) if state.last.newest else ""
    counts = f"{state.last.read:,}", f"{state.last.dead:,}"
    return (state.resource, mark, state.last.verb, _short_time(state.last.at), behind, *counts)


def status_notes(states: Iterable[ResourceStatus]) -> Iterator[str]:
    """Yield a sentence for each problem: of shards, fragmentation, troubles, builds and watermarks."""
    for state in states:
        yield from state.shard_problems
        if state.live is None and state.mark is not None:
            yield (
                f"{state.resource}: the alias {state.alias} is missing, so requests get 503. Add it again with "
                f"`POST _aliases`, or run `brokerage index reindex SOURCE {state.resource}`."
            )
        if state.is_mark_ahead:
            yield (
                f"{state.resource}: the watermark is in the future, from a run under a wrong clock. "
                f"Run `brokerage index repair-clock {state.resource}`."
            )
        if state.is_replaced:
            yield (
                f"{state.resource}: restored or replaced since the last run, so its changes are refused. "
                "`brokerage index restored`, or the next update, lets consumers start again."
            )
        if state.fragmentation is not None and state.fragmentation.is_fragmented:
            what = fragmentation_sentence(state.fragmentation)
            yield f"{state.resource}: {what} Run `brokerage index compact {state.resource}`."
        if state.troubles.count:
            yield (
                f"{state.resource}: {troubles_sentence(state.troubles)} "
                f"See `brokerage index troubles {state.resource}`."
            )
        if state.overdue:
            yield f"{state.resource}: {state.overdue}"
        if state.build is not None:
            yield _unfinished(state.build)
        if state.last is not None and state.last.dead_letters:
            yield f"{state.resource}: bad records in {state.last.dead_letters}."


def _unfinished(build: BuildProgress) -> str:
    if build.refusal is not None:
        return f"{build.candidate} was refused and is kept for inspection: {build.refusal}"
    return f"{build.candidate} is in progress or interrupted, at line {build.line:,} ({build.phase})."


def _generation_number(state: ResourceStatus, index: str) -> str:
    """Return an index name without the alias, which the row shows already."""
    return index.removeprefix(f"{state.alias}-")


def _short_time(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC).strftime("%m-%d %H:%M")


_REPLICATION_COLUMNS = ("Company", "Followed by", "At, UTC", "Behind", "Keys checked", "Records", "Due")


def _replication_table(replications: Collection[ReplicationStatus]) -> Iterator[Table]:
    if not replications:
        return
    table = plain_table("Replicated from", *_REPLICATION_COLUMNS, folded=["Replicated from"])
    for status in replications:
        table.add_row(*_replication_row(status))
        if status.complaint:
            table.add_row(Text(status.complaint, style="red"))
        for sentence in status.missing:
            if sentence not in (status.complaint or ""):
                table.add_row(Text(sentence, style="yellow"))
    yield table


def _replication_row(status: ReplicationStatus) -> tuple[str, ...]:
    return (
        status.source,
        status.company,
        status.followed_by,
        _short_time(status.at),
        _lag(status),
        "" if status.keys_checked is None else _age(status.keys_checked),
        f"{sum(status.records.values()):,}",
        f"{status.due:,}",
    )


def _lag(status: ReplicationStatus) -> str:
    """Return the time since the copy was last complete; it grows while no run is active."""
    if status.complete is None:
        return "not loaded"
    return _age(status.complete)


def _age(milliseconds: int) -> str:
    """Return the time since a time in milliseconds since 1970."""
    return str(dt.timedelta(seconds=max(0, int(time.time()) - milliseconds // 1000)))


_INTERVAL_SECONDS = 10.0
_STOPPED = "Stopped: Elasticsearch finishes the merge that it has begun, and the same command follows it."


@click.command(
    epilog=epilog("brokerage index compact", "brokerage index compact listings agents --json", exits=INDEX_EXITS)
)
@click.argument("resources", nargs=-1, type=RESOURCE_CHOICE, metavar="[RESOURCE]...")
@JSON_OPTION
def compact(*, resources: tuple[str, ...], as_json: bool) -> None:
    """Defragment indices after many updates, which makes reads fast again.

    An index is fragmented if more than one document in a hundred of a shard is deleted, or if a shard has more than 50
    segments; `brokerage index status` shows both. Others stay as they are. One index is merged at a time, once no data
    node uses more than 75 % of its processors. Updates, rebuilds and readers may run at the same time. The merge needs
    free disk space of the size of the largest shard on each node that has one.
    """
    chosen = [RESOURCES_BY_NAME[name] for name in resources or RESOURCES_BY_NAME]
    display = _CompactionDisplay(as_json=as_json)
    work = partial(
        indexer.compact, resources=chosen, on_progress=display.show, on_wait=partial(print_note, as_json=as_json)
    )
    display.finish(run_on_cluster(work, stopped=_STOPPED))


class _CompactionDisplay:
    """Writes JSON lines, or lines of text, at most one every ten seconds for a merge."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._written = -_INTERVAL_SECONDS
        self._index = ""

    def show(self, progress: indexer.CompactionProgress) -> None:
        """Write how far a merge is, if the interval has passed or the index is another."""
        now = time.monotonic()
        if progress.index == self._index and now - self._written < _INTERVAL_SECONDS:
            return
        self._written, self._index = now, progress.index
        if self._as_json:
            echo(orjson.dumps({"event": "progress", **asdict(progress)}))
        else:
            fragmentation = progress.fragmentation
            counts = f"{fragmentation.fragmented_shards} of {counted(fragmentation.shards, 'shard')} left"
            echo(f"{progress.resource}: merging {progress.index} for {progress.seconds:,.0f} s, {counts}.")

    def finish(self, done: Sequence[indexer.Compaction]) -> None:
        if self._as_json:
            resources = {compaction.resource: asdict(compaction) for compaction in done}
            echo(orjson.dumps({"event": "summary", "exit_code": 0, "resources": resources}))
        else:
            echo("\n".join(f"{compaction.resource}: {_outcome(compaction)}" for compaction in done))


def _outcome(done: indexer.Compaction) -> str:
    match done.outcome:
        case indexer.CompactionOutcome.ABSENT:
            return "no index is live."
        case indexer.CompactionOutcome.REPLACED:
            return f"{done.index} has been replaced by another version in the meantime."
        case indexer.CompactionOutcome.SOUND:
            return f"not fragmented: {_fragmentation(done.before)}."
    follows = ", begun by an earlier command" if done.is_followed else ""
    again = " Still fragmented: run the command again." if done.after is not None and done.after.is_fragmented else ""
    before, after = _fragmentation(done.before), _fragmentation(done.after)
    return f"merged {done.index} in {done.seconds:,.1f} s{follows}: {before}; now {after}.{again}"


def _fragmentation(fragmentation: IndexFragmentation | None) -> str:
    if fragmentation is None:
        return ""
    return f"{fragmentation.deleted:.1%} deleted documents, {counted(fragmentation.segments, 'segment')}"


Repairs = Mapping[str, indexer.ClockRepair | None]


@click.command(
    "repair-clock",
    epilog=epilog("brokerage index repair-clock", "brokerage index repair-clock listings --json", exits=INDEX_EXITS),
)
@click.argument("resources", nargs=-1, type=RESOURCE_CHOICE, metavar="[RESOURCE]...")
@JSON_OPTION
def repair_clock(*, resources: tuple[str, ...], as_json: bool) -> None:
    """Fix timestamps and watermarks that were written while a clock was ahead.

    Their changes are stamped with the present. Consumers that hold such a watermark receive them again and miss
    nothing; if it is more than a week ahead, they must ask before its time has come. Tokens of /v1/changes stay valid.
    Without RESOURCE, all are repaired; one without a watermark in the future stays as it is. The clocks of this host
    and of Elasticsearch must be right first.
    """
    repairs = run_on_cluster(partial(_repair_all, resources=resources or tuple(RESOURCES_BY_NAME)))
    if as_json:
        echo(orjson.dumps({name: repair and asdict(repair) for name, repair in repairs.items()}))
    else:
        echo("\n".join(_repair_line(name, repair) for name, repair in repairs.items()))


async def _repair_all(context: indexer.IndexerContext, resources: Collection[str]) -> Repairs:
    return {
        name: await indexer.repair_clock(context, RESOURCES_BY_NAME[name], on_wait=print_error_line)
        for name in resources
    }


def _repair_line(name: str, repair: indexer.ClockRepair | None) -> str:
    if repair is None:
        return f"{name}: nothing to repair."
    before, after = _minute(repair.before), _minute(repair.after)
    line = f"{name}: watermark {before} -> {after}, {counted(repair.documents, 'document')} with a new timestamp."
    if not repair.late_readers_start_over:
        return f"{line} Until {before}, polls with a later watermark than {after} repeat the changes since then."
    return (
        f"{line}\n  Consumers that received a later updated_since must send it before its time has come, or start over."
    )


def _minute(milliseconds: int) -> str:
    return dt.datetime.fromtimestamp(milliseconds // 1000, dt.UTC).strftime("%Y-%m-%d %H:%M UTC")


@click.command(
    epilog=epilog("brokerage index rollback listings", "brokerage index rollback agents --yes", exits=INDEX_EXITS)
)
@click.argument("resource", type=RESOURCE_CHOICE, metavar="RESOURCE")
@YES_OPTION
@JSON_OPTION
def rollback(*, resource: str, yes: bool, as_json: bool) -> None:
    """Restore the previous index version of RESOURCE, with all updates since it was replaced."""
    live, target = run_on_cluster(partial(indexer.rollback_target, resource=RESOURCES_BY_NAME[resource]))
    _confirm(
        f"{resource} will be served from {target} instead of {live}, with every update since {live} went live. "
        f"The changes of the build of {live} itself are undone.",
        yes=yes,
    )
    restored = run_on_cluster(partial(indexer.rollback, resource=RESOURCES_BY_NAME[resource], on_wait=print_error_line))
    _print_result(as_json, {"resource": resource, "live": restored}, f"{resource} is now served from {restored}.")


@click.command(
    epilog=epilog("brokerage index restored", "brokerage index restored listings --yes --json", exits=INDEX_EXITS)
)
@click.argument("resources", type=RESOURCE_CHOICE, metavar="[RESOURCE]…", nargs=-1)
@YES_OPTION
@JSON_OPTION
def restored(*, resources: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Tell consumers that Elasticsearch was restored: by default for all resources.

    Run it once, after you have restored a snapshot, a disk or a whole cluster, and before the next update.
    """
    _confirm(
        f"Consumers of {', '.join(resources) or 'all resources'} will take new snapshots, because what they have read "
        "may be gone.",
        yes=yes,
    )
    chosen = [RESOURCES_BY_NAME[name] for name in resources or RESOURCES_BY_NAME]
    begun = run_on_cluster(partial(indexer.begin_new_epochs, resources=chosen, on_wait=print_error_line))
    _print_result(as_json, {"resources": begun}, f"Consumers start again with {', '.join(begun)}.")


@click.command(epilog=epilog("brokerage index prune", "brokerage index prune --yes --json", exits=INDEX_EXITS))
@YES_OPTION
@JSON_OPTION
def prune(*, yes: bool, as_json: bool) -> None:
    """Delete old index versions, leftovers of builds, and records of old deletions.

    In an index of several shards also the copies that records left behind when they changed their shard.

    BROKERAGE_KEPT_GENERATIONS and BROKERAGE_TOMBSTONE_DAYS set how much is kept.
    """
    found = run_on_cluster(indexer.prunable)
    if any(found):
        _confirm(f"{', '.join(found.indices) or 'No index'} and {_count_documents(found)} will be deleted.", yes=yes)
        found = run_on_cluster(partial(indexer.prune, on_wait=print_error_line))
    deleted = f"Deleted: {', '.join(found.indices) or 'no index'}, {_count_documents(found)}."
    counts = {"deleted": found.indices, "tombstones": found.tombstones, "copies": found.copies}
    _print_result(as_json, counts, deleted)


def _count_documents(found: indexer.Pruned) -> str:
    deleted = counted(found.tombstones, "deleted record")
    return (
        f"{deleted} and {found.copies:,} left {'copy' if found.copies == 1 else 'copies'}" if found.copies else deleted
    )


def _confirm(sentence: str, *, yes: bool) -> None:
    if not yes:
        click.confirm(f"{sentence} Continue?", abort=True, err=True)


def _print_result(as_json: bool, value: dict[str, object], sentence: str) -> None:  # noqa: FBT001 - passed on as is
    echo(orjson.dumps(value) if as_json else sentence)
