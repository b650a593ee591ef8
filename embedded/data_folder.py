"""The data folder of a cluster: locked by one program at a time, with a record of its version and size."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final

import msgspec

from embedded.artifacts import VERSION
from embedded.cache_folders import default_data_folder
from embedded.errors import DataFolderError
from embedded.node_options import NodeOptions

_LOCK: Final = "in-use.lock"
_RECORD: Final = "cluster.json"


class ClusterRecord(msgspec.Struct, frozen=True):
    """The version and number of nodes of a cluster, written once it has formed."""

    version: str
    nodes: int


class DataFolder:
    """Holds the folder's lock from `open` to `close`.

    The nodes inherit the lock: it is held until the last of them exits, even if their program was killed.
    """

    def __init__(self, options: NodeOptions) -> None:
        self.ephemeral = options.ephemeral
        self.root = _folder_of(options)
        self._lock: IO[str] | None = None

    def open(self, nodes: int) -> None:
        """Lock the folder; raise DataFolderError if it is in use or belongs to an incompatible cluster."""
        try:
            for name in ("logs", "snapshots", "tmp"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            self._acquire_lock((self.root / _LOCK).open("a+"))
        except OSError as error:
            raise DataFolderError(
                f"cannot use the data folder {self.root}: {error.strerror}; choose another data folder"
            ) from error
        self._check(nodes)

    def close(self, *, keep_logs: bool = False) -> None:
        """Release the folder and remove it if it is ephemeral, except for logs that an error message refers to."""
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._lock.close()
            self._lock = None
        if self.ephemeral:
            self._remove(keep_logs=keep_logs)

    @property
    def lock_descriptor(self) -> int:
        """The open lock, for the nodes to inherit."""
        if self._lock is None:
            raise RuntimeError("the data folder is not open")
        return self._lock.fileno()

    @property
    def record(self) -> ClusterRecord | None:
        """The cluster in the folder; None before its first cluster has formed."""
        file = self.root / _RECORD
        return msgspec.json.decode(file.read_bytes(), type=ClusterRecord) if file.exists() else None

    def write_record(self, nodes: int) -> None:
        """Record the cluster that has formed."""
        temporary = self.root / f".{_RECORD}"
        temporary.write_bytes(msgspec.json.encode(ClusterRecord(VERSION, nodes)))
        temporary.replace(self.root / _RECORD)

    def _acquire_lock(self, file: IO[str]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _read_and_close(file)
            raise DataFolderError(
                f"the data folder {self.root} is in use by process {holder}: "
                "stop that one or choose another data folder"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        self._lock = file

    def _remove(self, *, keep_logs: bool) -> None:
        for child in self.root.iterdir():
            if child.is_file():
                child.unlink()
            elif child.name != "logs" or not keep_logs:
                shutil.rmtree(child)
        if not keep_logs:
            self.root.rmdir()

    def _check(self, nodes: int) -> None:
        record = self.record
        if record is None:
            return
        if record.nodes > nodes:
            raise DataFolderError(
                f"the data folder {self.root} belongs to a cluster of {record.nodes} nodes: "
                f"start it with --nodes {record.nodes} or choose another data folder"
            )
        if _numbers(record.version) > _numbers(VERSION):
            raise DataFolderError(
                f"the data folder {self.root} was written by Elasticsearch {record.version}, this is {VERSION}: "
                "choose another data folder"
            )


def _folder_of(options: NodeOptions) -> Path:
    if options.ephemeral:
        return Path(tempfile.mkdtemp(prefix="brokerage-node-"))
    return (options.data or default_data_folder()).absolute()


def _read_and_close(file: IO[str]) -> str:
    with file:
        file.seek(0)
        return file.read() or "unknown"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
