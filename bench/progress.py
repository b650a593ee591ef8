"""Progress on standard error: what is running, and the time since the start."""

import sys
import time


class Progress:
    """Lines with the time since the start; at most one every few seconds for repeated steps."""

    _EVERY_SECONDS = 5.0

    def __init__(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._shown = 0.0

    def report(self, text: str) -> None:
        """Show a line."""
        self._shown = time.monotonic()
        print(f"[{self._shown - self._started:.0f} s] {text}", file=sys.stderr, flush=True)

    def report_occasionally(self, text: str) -> None:
        """Show a line, unless another was shown in the last seconds."""
        if time.monotonic() - self._shown >= self._EVERY_SECONDS:
            self.report(text)

    def step(self, name: str, done: int, total: int) -> None:
        """Show how many rounds of a group are done."""
        show = self.report if done == total else self.report_occasionally
        show(f"{name}: round {done} of {total}")
