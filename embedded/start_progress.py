"""Progress reports of a start."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StartProgress:
    """One step of a start. A download has `total` > 0 and a growing `done`, both in bytes."""

    step: str
    done: int = 0
    total: int = 0


ProgressCallback = Callable[[StartProgress], None]


def ignore_progress(_progress: StartProgress) -> None:
    """Discard the report."""
