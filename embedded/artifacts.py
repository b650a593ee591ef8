"""The pinned jars of Elasticsearch: Maven coordinates, sizes and SHA-256 sums, read from the committed lock."""

import hashlib
from pathlib import Path
from typing import Final

import msgspec

LOCK_FILE: Final = Path(__file__).with_name("artifacts.lock.json")


class Artifact(msgspec.Struct, frozen=True):
    """One jar: its coordinate `group:name:version`, its SHA-256 in hex and its size in bytes."""

    coordinate: str
    sha256: str
    size: int

    @property
    def file_name(self) -> str:
        """The jar's name in every Maven repository."""
        _group, name, version = self.coordinate.split(":")
        return f"{name}-{version}.jar"

    def matches(self, file: Path) -> bool:
        """Whether the file exists and has the pinned size and SHA-256."""
        if not file.is_file() or file.stat().st_size != self.size:
            return False
        return sha256_of(file) == self.sha256


class ArtifactLock(msgspec.Struct, frozen=True):
    """The version of Elasticsearch and all its jars."""

    version: str
    artifacts: tuple[Artifact, ...]

    @property
    def size(self) -> int:
        """Total size of all jars in bytes."""
        return sum(artifact.size for artifact in self.artifacts)

    @property
    def digest(self) -> str:
        """A short hash of all pinned sums."""
        sums = "".join(artifact.sha256 for artifact in self.artifacts)
        return hashlib.sha256(sums.encode()).hexdigest()[:12]


def sha256_of(file: Path) -> str:
    """The file's SHA-256 in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_lock(file: Path = LOCK_FILE) -> ArtifactLock:
    """The committed lock; `python -m embedded.lock` writes it."""
    return msgspec.json.decode(file.read_bytes(), type=ArtifactLock)


ARTIFACT_LOCK: Final = read_lock()
VERSION: Final = ARTIFACT_LOCK.version
