"""How a command fails: one sentence on standard error, and an exit code for the reason."""

import sys
from enum import IntEnum
from typing import NoReturn

from brokerage_feed.output import echo


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    UNAVAILABLE = 3
    LOCKED = 4
    REPAIRED = 5


def fail(sentence: str, code: ExitCode = ExitCode.FAILED) -> NoReturn:
    """Print the reason and exit."""
    echo(sentence, err=True)
    sys.exit(code)
