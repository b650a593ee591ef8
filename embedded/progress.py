"""What a start reports while it runs."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of a start. A download has `total` > 0 and repeats with a growing `done`, both in bytes."""

    step: str
    done: int = 0
    total: int = 0


ProgressCallback = Callable[[Progress], None]


def ignore_progress(_progress: Progress) -> None:
    """Report to nobody."""
