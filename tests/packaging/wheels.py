"""Wheels of this tree, and environments that hold them and see what they need."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.architecture.graph import CLIENT, ROOT

BIN = Path(sys.executable).parent
OURS = {"brokerage-server": ROOT, "brokerage-feed": CLIENT}


def run(*command: str | Path, cwd: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command without PYTHONPATH and settings: nothing of the repository may be found by accident."""
    given = {"PATH": os.environ["PATH"], "HOME": str(cwd), **environment}
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, env=given)  # noqa: S603 - our own


def build_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of a project without a network, by what is installed."""
    built = run(BIN / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=project)
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


def install_wheels(home: Path, wanted: str, *wheels: Path) -> Path:
    """Return the commands of a fresh environment of wheels, with links to the files that `wanted` requires."""
    venv.create(home, symlinks=True)
    python = str(home / "bin/python")
    options = ("--offline", "--no-deps", "--no-cache", "--python", python)
    done = run(BIN / "uv", "pip", "install", *options, *map(str, wheels), cwd=home)
    assert done.returncode == 0, done.stderr
    (packages,) = home.glob("lib/python*/site-packages")
    for name in {*requirements(wanted)} - OURS.keys():
        _link(name, packages)
    return home / "bin"


def requirements(wanted: str) -> list[str]:
    """Return the distributions that a requirement such as `brokerage-feed[progress]` installs, itself included."""
    found: set[tuple[str, str]] = set()
    waiting = [Requirement(wanted)]
    while waiting:
        needed = waiting.pop()
        for extra in ("", *sorted(needed.extras)):
            if (at := (_normalized(needed.name), extra)) not in found:
                found.add(at)
                waiting += _required(needed.name, extra)
    return sorted({name for name, _ in found})


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(name: str, extra: str) -> Iterator[Requirement]:
    for needed in map(Requirement, _declared(name)):
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield needed


def _declared(name: str) -> Iterable[str]:
    """Return what a distribution requires: of ours as the tree says, since an installation may be older."""
    if name not in OURS:
        return distribution(name).requires or ()
    project = tomllib.loads((OURS[name] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project.get("optional-dependencies", {}).items()
    return [*project["dependencies"], *(_optional(text, extra) for extra, texts in optional for text in texts)]


def _optional(text: str, extra: str) -> str:
    needed, _, marker = text.partition(";")
    return f'{needed}; extra == "{extra}"' + (f" and ({marker})" if marker else "")


def _link(name: str, packages: Path) -> None:
    """Link the files of an installed distribution; folders of their own, since two may share a namespace."""
    for file in distribution(name).files or ():
        target = packages / file
        if ".." not in file.parts and file.suffix != ".pyc":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(str(file.locate())))
