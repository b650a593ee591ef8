"""Object stores by their URL: `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`.

Credentials, regions and endpoints come from the variables of the environment that object_store reads (AWS_*, GOOGLE_*,
AZURE_*; docs/operating/publish.md). The library is an optional dependency, so this module imports it where it is used.
"""

from __future__ import annotations

import os
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

ObjectStore: TypeAlias = "AzureStore | GCSStore | S3Store"

if TYPE_CHECKING:
    from obstore.store import AzureStore, ClientConfig, GCSStore, RetryConfig, S3Store

_FORMS = ("s3://bucket/prefix", "gs://bucket/prefix", "az://container/prefix")
# Options that are given replace those of the environment, of which this one is needed within a trusted network.
_ALLOW_HTTP = {"s3": "AWS_ALLOW_HTTP", "gs": "GOOGLE_ALLOW_HTTP", "az": "AZURE_ALLOW_HTTP"}
_CONNECT = timedelta(seconds=3)
_MAX_REASON_LENGTH = 300


class Patience(NamedTuple):
    """The seconds that one attempt may take, and those after which no other one begins."""

    attempt: float
    retries: float


# Of what a client waits for, and of what a lock covers (`service.publishing.store_target`): at most ten seconds.
QUICK = Patience(attempt=5.0, retries=5.0)
# Of uploads, each part an attempt.
PATIENT = Patience(attempt=120.0, retries=180.0)


def is_store_url(place: str) -> bool:
    """Whether published files are in an object store, and not in a folder."""
    return "://" in place


def open_store(url: str, patience: Patience) -> ObjectStore:
    """Return the store, without a request to it; raise ValueError, which says what the URL or environment lacks."""
    scheme, _, rest = url.partition("://")
    if scheme not in _ALLOW_HTTP or not rest.partition("/")[0]:
        raise ValueError(f"is not a folder, {', '.join(_FORMS[:-1])} or {_FORMS[-1]}.")
    if find_spec("obstore") is None:
        raise ValueError("needs obstore, which is not installed: pip install obstore.")
    from obstore.exceptions import BaseError  # noqa: PLC0415
    from obstore.store import from_url  # noqa: PLC0415

    options: ClientConfig = {
        "timeout": timedelta(seconds=patience.attempt),
        "connect_timeout": _CONNECT,
        "allow_http": os.environ.get(_ALLOW_HTTP[scheme], "").lower() == "true",
    }
    retries: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=patience.retries)}
    try:
        # The schemes are those of three of its stores.
        return cast("ObjectStore", from_url(url, client_options=options, retry_config=retries))
    except (BaseError, ValueError) as error:
        raise ValueError(f"cannot be used: {reason(error)}.") from error


def reason(error: BaseException) -> str:
    """Return what an error of a store says, without the dump of its causes."""
    first = str(error).partition("\n")[0].strip().rstrip(".")
    return first[:_MAX_REASON_LENGTH] or type(error).__name__
