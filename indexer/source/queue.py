"""A bounded queue between a source, which may be endless, and an update that takes its lines in batches."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Generic, TypeVar

Queued = TypeVar("Queued")

# A batch waits this long for more lines after its first one.
_LINGER_SECONDS = 0.25
# After this long without a line an empty batch is returned, so that the run can publish and release its locks.
_IDLE_SECONDS = 1.0


class BoundedQueue(Generic[Queued]):
    """A queue of about two batches, filled by its own thread, so that a blocking read does not block the run."""

    def __init__(
        self, items: Iterator[Queued], batch_size: int, batch_bytes: int, bytes_of: Callable[[Queued], int]
    ) -> None:
        """Start reading; a batch has at most `batch_size` items, and at most `batch_bytes` or one item."""
        self._items = items
        self._batch_size = batch_size
        self._batch_bytes = batch_bytes
        self._bytes_of = bytes_of
        self._bytes = 0  # in the queue
        self._queue: deque[Queued] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._failure: Exception | None = None
        threading.Thread(target=self._fill, daemon=True, name="source").start()

    def _fill(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: not self._has_batches(2) or self._is_closed)
                    if self._is_closed:
                        return
                    self._queue.append(item)
                    self._bytes += self._bytes_of(item)
                    self._changed.notify_all()
        except Exception as failure:
            self._failure = failure
        finally:
            self.close()

    async def batches(self) -> AsyncGenerator[list[Queued], None]:
        """Yield batches, empty ones when idle, and stop reading at the end; raise the error of the source."""
        try:
            while (batch := await asyncio.to_thread(self.take_batch)) is not None:
                yield batch
        finally:
            self.close()

    def take_batch(self) -> list[Queued] | None:
        """Return the next batch, an empty one when idle, None at the end; raise the error of the source."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_closed, _IDLE_SECONDS)
            deadline = time.monotonic() + _LINGER_SECONDS
            while self._queue and not self._has_batches(1) and not self._is_closed:
                if not self._changed.wait(deadline - time.monotonic()):
                    break
            batch = self._next_batch()
            self._changed.notify_all()
            if not batch and self._failure is not None:
                raise self._failure
            return batch if batch or not self._is_closed else None

    def _has_batches(self, count: int) -> bool:
        return len(self._queue) >= count * self._batch_size or self._bytes >= count * self._batch_bytes

    def _next_batch(self) -> list[Queued]:
        batch, size = list[Queued](), 0
        while self._queue and len(batch) < self._batch_size:
            size += self._bytes_of(self._queue[0])
            if batch and size > self._batch_bytes:
                break
            batch.append(self._queue.popleft())
        self._bytes -= sum(map(self._bytes_of, batch))
        return batch

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
