"""Wheels of this tree, and environments that hold them and see what they need."""

import os
import subprocess
import sys
import venv
from importlib.metadata import distribution
from pathlib import Path

from bench.weight import requirements

BIN = Path(sys.executable).parent
OURS = {"brokerage-server", "brokerage-feed"}


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
    for name in {*requirements(wanted)} - OURS:
        _link(name, packages)
    return home / "bin"


def _link(name: str, packages: Path) -> None:
    """Link the files of an installed distribution; folders of their own, since two may share a namespace."""
    for file in distribution(name).files or ():
        target = packages / file
        if ".." not in file.parts and file.suffix != ".pyc":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.symlink_to(Path(str(file.locate())))
