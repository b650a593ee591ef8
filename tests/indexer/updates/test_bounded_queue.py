"""The queue of an update holds about two batches, in lines and in bytes, and loses nothing."""

from collections.abc import Iterator

import pytest

from indexer.source.lines import BoundedQueue

MANY = 100


@pytest.mark.parametrize(("batch_size", "batch_bytes", "held"), [(10, 10**6, 21), (10**6, 1000, 21), (10**6, 1, 3)])
def test_only_two_batches_are_read_ahead(batch_size: int, batch_bytes: int, held: int) -> None:
    read: list[bytes] = []

    def lines() -> Iterator[bytes]:
        for number in range(MANY):
            read.append(b"%100d" % number)
            yield read[-1]

    queue = BoundedQueue(lines(), batch_size, batch_bytes, len)
    taken = queue.take_batch() or []
    assert len(taken) <= min(batch_size, max(1, batch_bytes // 100))
    assert len(read) <= len(taken) + held
    while (batch := queue.take_batch()) is not None:
        assert len(batch) <= min(batch_size, max(1, batch_bytes // 100))
        taken += batch
    assert taken == read
    assert len(read) == MANY
