"""`brokerage index compact`: merge the indices whose shards are worn by updates."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

import orjson
import rich_click as click

import indexer
from brokerage.help_epilogs import INDEX_EXITS, epilog
from brokerage.index.index_runner import (
    JSON_OPTION,
    RESOURCE_CHOICE,
    RESOURCES_BY_NAME,
    print_error_line,
    run_on_cluster,
)
from brokerage.output import echo
from cluster.index_wear import IndexWear

_INTERVAL_SECONDS = 10.0
_STOPPED = "Stopped: Elasticsearch finishes the merge that it has begun, and the same command follows it."


@click.command(
    epilog=epilog("brokerage index compact", "brokerage index compact listings agents --json", exits=INDEX_EXITS)
)
@click.argument("resources", nargs=-1, type=RESOURCE_CHOICE, metavar="[RESOURCE]...")
@JSON_OPTION
def compact(*, resources: tuple[str, ...], as_json: bool) -> None:
    """Merge the live indices whose shards are worn by updates, so that a page costs what it did after the rebuild.

    An index is worn if more than one document in a hundred of a shard is deleted, or if a shard has more than 50
    segments; `brokerage index status` shows both. Others stay as they are. One index is merged at a time, once no data
    node uses more than 75 % of its processors. Updates, rebuilds and readers may run meanwhile. The merge needs free
    disk space of the size of the largest shard on each node that has one.
    """
    chosen = [RESOURCES_BY_NAME[name] for name in resources or RESOURCES_BY_NAME]
    display = _Display(as_json=as_json)
    work = partial(indexer.compact, resources=chosen, on_progress=display.show, on_wait=display.note)
    display.finish(run_on_cluster(work, stopped=_STOPPED))


class _Display:
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
            echo(orjson.dumps({"event": "progress", **asdict(progress)}).decode())
        else:
            wear = progress.wear
            counts = f"{wear.worn_shards} of {wear.shards} shards left"
            echo(f"{progress.resource}: merging {progress.index} for {progress.seconds:,.0f} s, {counts}.")

    def note(self, sentence: str) -> None:
        """Write what the command waits for."""
        if self._as_json:
            echo(orjson.dumps({"event": "note", "note": sentence}).decode())
        else:
            print_error_line(sentence)

    def finish(self, done: Sequence[indexer.Compaction]) -> None:
        """Write what became of each resource."""
        if self._as_json:
            resources = {each.resource: asdict(each) for each in done}
            echo(orjson.dumps({"event": "summary", "exit_code": 0, "resources": resources}).decode())
        else:
            echo("\n".join(f"{each.resource}: {_sentence(each)}" for each in done))


def _sentence(done: indexer.Compaction) -> str:
    match done.outcome:
        case indexer.CompactionOutcome.ABSENT:
            return "nothing is loaded."
        case indexer.CompactionOutcome.REPLACED:
            return f"{done.index} was replaced by another generation meanwhile."
        case indexer.CompactionOutcome.SOUND:
            return f"not worn: {_wear(done.before)}."
    follows = ", begun by an earlier command" if done.is_followed else ""
    again = " Still worn: run the command again." if done.after is not None and done.after.is_worn else ""
    return (
        f"merged {done.index} in {done.seconds:,.1f} s{follows}: {_wear(done.before)}; now {_wear(done.after)}.{again}"
    )


def _wear(wear: IndexWear | None) -> str:
    if wear is None:
        return ""
    segments = "1 segment" if wear.segments == 1 else f"{wear.segments:,} segments"
    return f"{wear.deleted:.1%} deleted documents, {segments}"
