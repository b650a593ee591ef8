"""Errors that end a publication; the text is a sentence for operators."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class PublishError(Exception):
    """The publication cannot continue; the latest manifests stay as they were."""


class PublishUnavailable(PublishError):
    """Elasticsearch is unavailable, or has nothing to publish yet."""


class PublishLocked(PublishError):
    """Another publication is writing to the folder."""


@contextmanager
def report_folder_errors(folder: Path) -> Iterator[None]:
    """Turn errors of a folder, such as a full disk, into PublishError."""
    try:
        yield
    except OSError as error:
        raise PublishError(f"{folder} cannot be used: {error}.") from error
