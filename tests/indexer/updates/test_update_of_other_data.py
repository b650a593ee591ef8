"""An interrupted update of a file does not skip lines whose effect was undone."""

import pytest

from indexer import begin_new_epochs
from indexer.changes.epochs import begin_due_epochs
from indexer.lock import ignore_wait
from indexer.update import UpdateCheckpoint
from mappings import COMPANY
from tests.indexer.conftest import Bench
from tests.records import envelope


@pytest.mark.parametrize("is_restored", [False, True])
async def test_an_update_resumes_only_in_the_life_that_it_was_interrupted_in(
    bench: Bench, *, is_restored: bool
) -> None:
    assert (await bench.build({COMPANY: [envelope(COMPANY)]})).exit_code == 0
    engine = bench.engine()
    await UpdateCheckpoint(engine, "a file", await begin_due_epochs(engine, ignore_wait)).write(7)
    if is_restored:
        await begin_new_epochs(engine)
    resumed = UpdateCheckpoint(engine, "a file", await begin_due_epochs(engine, ignore_wait))
    assert await resumed.read() == (0 if is_restored else 7)
    # A checkpoint of an earlier version has no epochs.
    await UpdateCheckpoint(engine, "a file", []).write(5)
    assert await resumed.read() == 5
