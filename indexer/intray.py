"""Lines on their way from a source that may never end to a run that takes them in batches."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Item = TypeVar("Item")

# A batch is closed this long after its first line, so that a trickle is served almost as it comes.
_LINGER_SECONDS = 0.25
# Without a line for this long, whoever takes is told, so that it can publish and let go.
_IDLE_SECONDS = 1.0


class Intray(Generic[Item]):
    """Filled by a thread of its own, at most two batches ahead; a read that blocks keeps nobody else waiting."""

    def __init__(self, items: Iterator[Item], batch: int) -> None:
        """Begin to read; `batch` is the number of lines that are taken together at most."""
        self._items = items
        self._batch = batch
        self._held: deque[Item] = deque()
        self._changed = threading.Condition()
        self._is_over = False
        self._failure: Exception | None = None
        threading.Thread(target=self._fill, daemon=True, name="source").start()

    def _fill(self) -> None:
        try:
            for item in self._items:
                with self._changed:
                    self._changed.wait_for(lambda: len(self._held) < 2 * self._batch or self._is_over)
                    if self._is_over:
                        return
                    self._held.append(item)
                    self._changed.notify_all()
        except Exception as failure:
            self._failure = failure
        finally:
            self.close()

    def take(self) -> list[Item] | None:
        """Return the next batch, an empty one while nothing comes, None at the end; raise what reading has raised."""
        with self._changed:
            self._changed.wait_for(lambda: self._held or self._is_over, _IDLE_SECONDS)
            end = time.monotonic() + _LINGER_SECONDS
            while self._held and len(self._held) < self._batch and not self._is_over:
                if not self._changed.wait(end - time.monotonic()):
                    break
            taken = [self._held.popleft() for _ in range(min(self._batch, len(self._held)))]
            self._changed.notify_all()
            if not taken and self._failure is not None:
                raise self._failure
            return taken if taken or not self._is_over else None

    def close(self) -> None:
        """Read no further."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
