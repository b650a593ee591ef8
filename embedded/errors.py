"""The errors of the embedded node."""

from pathlib import Path


class EmbeddedNodeError(Exception):
    """The node cannot start or run; the message is one sentence with the reason and the remedy.

    `log` is the log file of Elasticsearch, if there is one; the message names it too.
    """

    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log


class DataFolderError(EmbeddedNodeError):
    """The data folder cannot be used; the message ends with the advice to choose another one."""
