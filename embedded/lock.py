"""Write `artifacts.lock.json`: `python -m embedded.lock [VERSION]` pins that version, by default the current one.

It resolves the server and its network module with their dependencies, downloads each jar and records its size and
SHA-256. To upgrade, run it, review the diff, and commit it: from then on only exactly these files are used.
"""

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from embedded.artifacts import (
    LOCK_FILE,
    VERSION,
    Artifact,
    ArtifactLock,
    maven_context,
    sha256_of,
    use_system_certificates,
)

if TYPE_CHECKING:
    from jgo.maven import Artifact as MavenArtifact
    from jgo.maven import MavenContext

ROOTS = ("org.elasticsearch:elasticsearch", "org.elasticsearch.plugin:transport-netty4")


def resolve(version: str, context: "MavenContext") -> "list[MavenArtifact]":
    """All jars that the server needs at run time, without duplicates."""
    roots = [context.create_dependency(f"{root}:{version}") for root in ROOTS]
    inputs, transitive = context.resolver.resolve(roots)
    needed = [*inputs, *(dependency for dependency in transitive if dependency.scope in {"compile", "runtime"})]
    return [dependency.artifact for dependency in needed]


def pin(jar: "MavenArtifact") -> Artifact:
    file = jar.resolve()
    coordinate = f"{jar.groupId}:{jar.artifactId}:{jar.version}"
    return Artifact(coordinate, sha256_of(file), file.stat().st_size)


def write_lock(version: str, file: Path = LOCK_FILE) -> ArtifactLock:
    with tempfile.TemporaryDirectory() as folder, use_system_certificates():
        jars = resolve(version, maven_context(Path(folder)))
        pinned = sorted(map(pin, jars), key=lambda artifact: artifact.coordinate)
    lock = ArtifactLock(version, tuple(pinned))
    file.write_bytes(msgspec.json.format(msgspec.json.encode(lock), indent=2) + b"\n")
    return lock


if __name__ == "__main__":
    written = write_lock(sys.argv[1] if len(sys.argv) > 1 else VERSION)
    print(f"{LOCK_FILE.name}: Elasticsearch {written.version}, {len(written.artifacts)} jars, {written.size:,} bytes")
