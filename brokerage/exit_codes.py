"""How a command fails: one sentence on standard error, and an exit code for the reason."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, NoReturn

from elastic_transport import TlsError, TransportError
from elasticsearch import ApiError

from brokerage.output import echo
from brokerage.settings_types import reject_unknown_settings
from cluster.settings import SettingError
from service.workers.sockets import ListenError

if TYPE_CHECKING:
    from collections.abc import Iterator


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


@contextmanager
def exit_on_error(*, reject_unknown: bool = True) -> Iterator[None]:
    """Turn errors of settings, of the cluster and of listening into one sentence each, and exit.

    `reject_unknown` first fails on variables that are named like settings but are not settings.
    """
    try:
        if reject_unknown:
            reject_unknown_settings(os.environ)
        yield
    except SettingError as error:
        fail(str(error), ExitCode.USAGE)
    except ListenError as error:
        fail(str(error))
    except TlsError as error:
        fail(f"Elasticsearch cannot be used: {error.message}", ExitCode.UNAVAILABLE)
    except TransportError as error:
        fail(
            f"Elasticsearch cannot be reached: {error.message}. Is ELASTICSEARCH_URL right, https or http included?",
            ExitCode.UNAVAILABLE,
        )
    except ApiError as error:
        fail(f"Elasticsearch returned an error: {error.message}.", ExitCode.UNAVAILABLE)
