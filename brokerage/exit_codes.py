"""How a command fails: one sentence on standard error, and an exit code for the reason."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from elastic_transport import TlsError, TransportError
from elasticsearch import ApiError

from brokerage.settings_types import reject_unknown_settings
from brokerage_feed.exit_codes import ExitCode, fail
from cluster.settings import SettingError
from cluster.write_blocks import refusal_reason
from service.workers.worker import ListenError

__all__ = ["ExitCode", "exit_on_error", "fail"]


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
        fail(_describe(error), ExitCode.UNAVAILABLE)


def _describe(error: ApiError) -> str:
    if reason := refusal_reason(error):
        return f"Elasticsearch rejects writes: {reason}. Free disk space or remove the block."
    return f"Elasticsearch returned an error: {error.message}."
