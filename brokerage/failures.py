"""How a command ends when it cannot do its work: one sentence on standard error and an exit code that tells why."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, NoReturn

import rich_click as click
from elastic_transport import TlsError, TransportError
from elasticsearch import ApiError

from brokerage.kinds import refuse_strangers
from cluster.settings import SettingError
from service.listening import CannotListen

if TYPE_CHECKING:
    from collections.abc import Iterator


class Exit(IntEnum):
    """What exit codes mean."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    ENGINE_AWAY = 3
    LOCKED = 4
    MENDED = 5


def fail(sentence: str, code: Exit = Exit.FAILED) -> NoReturn:
    """Say why, and end."""
    click.echo(sentence, err=True)
    sys.exit(code)


@contextmanager
def told_plainly(*, strictly: bool = True) -> Iterator[None]:
    """Turn failures of settings, of the cluster and of listening into one sentence each.

    Strictly, a variable that is named like a setting and is none is one of them, before anything else is done.
    """
    try:
        if strictly:
            refuse_strangers(os.environ)
        yield
    except SettingError as error:
        fail(str(error), Exit.USAGE)
    except CannotListen as error:
        fail(str(error))
    except TlsError as error:
        fail(f"Elasticsearch cannot be asked: {error.message}", Exit.ENGINE_AWAY)
    except TransportError as error:
        fail(
            f"Elasticsearch cannot be reached: {error.message}. Is ELASTICSEARCH_URL right, https or http included?",
            Exit.ENGINE_AWAY,
        )
    except ApiError as error:
        fail(f"Elasticsearch refused: {error.message}.", Exit.ENGINE_AWAY)
