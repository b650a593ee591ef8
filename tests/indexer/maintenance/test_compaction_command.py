"""`brokerage index compact` and `index status` as an operator meets them."""

import orjson
import pytest

from indexer import status
from indexer.maintenance.compaction import MergeState, MergeTasks
from tests.indexer.command.test_command import run
from tests.indexer.conftest import Bench
from tests.indexer.maintenance.conftest import fragmentation
from tests.internals import Internals


@pytest.fixture(params=[1, 3])
def shards(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.mark.parametrize("shards", [3])  # it waits half a minute; how one shard is merged is in test_compaction
async def test_status_shows_the_fragmentation_and_says_what_to_do(fragmented: Bench, internals: Internals) -> None:
    (state,) = [found for found in await status(fragmented.engine()) if found.resource == "teams"]
    assert state.fragmentation == await fragmentation(fragmented)
    _, out, _ = await run(fragmented, "status", COLUMNS="200")
    header = next(line for line in out.splitlines() if "Segments" in line)
    assert header.split().index("Fragmented") + 1 == header.split().index("Segments")
    assert "Run `brokerage index compact teams`." in out
    internals(compaction_longest_seconds=300.0)
    code, text, _ = await run(fragmented, "compact")
    assert code == 0
    lines = text.splitlines()
    assert [line for line in lines if line.startswith("companies: not fragmented: 0.0% deleted documents")]
    (merged,) = [line for line in lines if line.startswith("teams: merged ")]
    assert merged.endswith("; now 0.0% deleted documents, 1 segment.")
    assert lines[-1] == "sold_listings: no index is live."
    assert "compact teams" not in (await run(fragmented, "status"))[1]


async def test_progress_is_a_json_line_for_each_index(
    fragmented: Bench, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, calls = MergeTasks.state, list[str]()

    async def running_once(tasks: MergeTasks, task: str) -> MergeState:
        calls.append(task)
        return MergeState.RUNNING if len(calls) == 1 else await state(tasks, task)

    monkeypatch.setattr(MergeTasks, "state", running_once)
    code, out, _ = await run(fragmented, "compact", "teams", "--json")
    *events, summary = [orjson.loads(line) for line in out.splitlines()]
    (progress,) = [event for event in events if event["event"] == "progress"]
    assert (code, progress["resource"], progress["fragmentation"]["shards"]) == (0, "teams", shards)
    assert progress["index"].endswith("teams-v0001")
    assert summary["resources"]["teams"]["outcome"] == "compacted"
