"""Errors of an object store that end a publication."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.exports.object_store import reason
from service.publishing.errors import PublishError, PublishUnavailable


@contextmanager
def report_store_errors(url: str) -> Iterator[None]:
    """Turn errors that repeat into PublishError, others into PublishUnavailable; FileNotFoundError stays."""
    # An optional dependency.
    from obstore import exceptions  # noqa: PLC0415

    try:
        yield
    except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError, exceptions.NotSupportedError) as error:
        raise PublishError(f"{url} refuses: {reason(error)}.") from error
    except exceptions.BaseError as error:
        raise PublishUnavailable(f"{url} cannot be used: {reason(error)}.") from error
