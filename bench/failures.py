"""What is told of an arm or a stage that failed."""

from __future__ import annotations


def told(error: BaseException) -> str:
    """Return one sentence; of several errors of tasks that ran together, that of the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__
