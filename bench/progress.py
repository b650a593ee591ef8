"""Progress on standard error: what is being done, how long it has taken, and what is left by the pace so far."""

from __future__ import annotations

import sys
import time


class Progress:
    """Lines with the time since the start; at most one a few seconds for what is repeated."""

    _EVERY_SECONDS = 5.0

    def __init__(self) -> None:
        """Begin to count the time."""
        self._started = time.monotonic()
        self._shown = 0.0

    def tell(self, text: str) -> None:
        """Show a line."""
        self._shown = time.monotonic()
        print(f"[{_clock(self._shown - self._started)}] {text}", file=sys.stderr, flush=True)

    def tell_sometimes(self, text: str) -> None:
        """Show a line, unless another was shown just now."""
        if time.monotonic() - self._shown >= self._EVERY_SECONDS:
            self.tell(text)

    def step(self, name: str, done: int, total: int, began: float) -> None:
        """Show how far a group of rounds has come; `began` is a moment of `time.monotonic`."""
        left = (time.monotonic() - began) / done * (total - done)
        show = self.tell if done == total else self.tell_sometimes
        show(f"{name}: round {done} of {total}" + (f", about {_clock(left)} left" if done < total else ""))


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
