"""The home folder of Elasticsearch: `lib/`, the network module, empty `config/` and `plugins/`."""

import fcntl
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded.artifact_download import download_artifacts
from embedded.artifacts import ARTIFACT_LOCK, Artifact, ArtifactLock
from embedded.cache_folders import cache_folder
from embedded.errors import EmbeddedNodeError
from embedded.start_progress import ProgressCallback, StartProgress

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
    report(StartProgress(f"checking {len(lock.artifacts)} jars"))
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
