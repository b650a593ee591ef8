"""Lays out the engine's home folder: `lib/`, the network module, empty `config/` and `plugins/`."""

import fcntl
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from embedded.artifacts import LOCK, Artifact, Lock
from embedded.download import download
from embedded.errors import EmbeddedNodeError
from embedded.folders import cache_folder
from embedded.progress import Progress, ProgressCallback

_MODULE: Final = "transport-netty4"
_DESCRIPTOR: Final = "plugin-descriptor.properties"


@dataclass(frozen=True, slots=True)
class Home:
    """A complete home folder; several nodes share it and none writes to it."""

    root: Path

    @property
    def class_path(self) -> list[str]:
        """The server's jars, in an order that stays the same from start to start."""
        return sorted(str(jar) for jar in (self.root / "lib").glob("*.jar"))


def prepare_home(report: ProgressCallback, lock: Lock = LOCK) -> Home:
    """The home folder of the pinned version in the user's cache, downloaded or repaired as needed.

    Every jar's SHA-256 is compared at every start. Raises EmbeddedNodeError when that cannot be brought about.
    """
    root = cache_folder() / f"elasticsearch-{lock.version}" / lock.digest
    try:
        for folder in ("lib", f"modules/{_MODULE}", "config", "plugins"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        with _alone(root, report):
            _complete(root, lock, report)
    except OSError as error:
        raise EmbeddedNodeError(
            f"cannot use the cache folder {root}: {error.strerror}; name another one in XDG_CACHE_HOME"
        ) from error
    return Home(root)


@contextmanager
def _alone(root: Path, report: ProgressCallback) -> Iterator[None]:
    with (root / "preparing.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            report(Progress("waiting for another program that prepares the same files"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _complete(root: Path, lock: Lock, report: ProgressCallback) -> None:
    report(Progress(f"checking {len(lock.artifacts)} jars"))
    places = {root / _place(artifact): artifact for artifact in lock.artifacts}
    wanted = {path: artifact for path, artifact in places.items() if not artifact.describes(path)}
    if wanted:
        download(wanted, report)
    for stranger in set(root.rglob("*.jar")) - places.keys():
        stranger.unlink()
    _write_descriptor(root / "modules" / _MODULE)


def _place(artifact: Artifact) -> Path:
    is_network = artifact.file_name.startswith(("netty-", _MODULE))
    return Path("modules", _MODULE, artifact.file_name) if is_network else Path("lib", artifact.file_name)


def _write_descriptor(module: Path) -> None:
    """The descriptor from the module's own jar, less its Java module name: the server runs on the class path."""
    for jar in module.glob(f"{_MODULE}-*.jar"):
        with zipfile.ZipFile(jar) as archive:
            lines = archive.read(f"META-INF/es-plugins/{_MODULE}/{_DESCRIPTOR}").splitlines(keepends=True)
        draft = module / f".{_DESCRIPTOR}"
        draft.write_bytes(b"".join(line for line in lines if not line.startswith(b"modulename")))
        draft.replace(module / _DESCRIPTOR)
