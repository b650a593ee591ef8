"""Errors that end a publication; the text is a sentence for operators."""

from collections.abc import Iterator
from contextlib import contextmanager


class PublishError(Exception):
    """The publication cannot continue; the latest manifests stay as they were."""


class PublishUnavailable(PublishError):
    """Elasticsearch or the object store is unavailable, or there is nothing to publish yet."""


class PublishLocked(PublishError):
    """Another publication is writing to the target."""


@contextmanager
def report_target_errors(target: object) -> Iterator[None]:
    """Turn errors of a target, such as a full disk, into PublishError."""
    try:
        yield
    except OSError as error:
        raise PublishError(f"{target} cannot be used: {error}.") from error
