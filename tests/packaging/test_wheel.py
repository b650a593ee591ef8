"""The wheel: what is in it, what is not, and that it works where nothing else of the repository is."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.architecture.graph import ALLOWED

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PACKAGES = sorted(set(ALLOWED) - {"bench"})


def _run(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[bytes]:
    # Without PYTHONPATH and settings: nothing of the repository may be found by accident.
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd)}
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, env=environment)  # noqa: S603 - our own


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network by what is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    built = _run(BIN / "python", "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder))
    assert built.returncode == 0, built.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a fresh environment that holds the wheel, and sees what the product needs."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, symlinks=True)
    python = home / "bin/python"
    done = _run(
        BIN / "uv", "pip", "install", "--offline", "--no-deps", "--no-cache", "--python", str(python), str(wheel)
    )
    assert done.returncode == 0, done.stderr
    (packages,) = home.glob("lib/python*/site-packages")
    # A folder on the path, whose own .pth files are not read: an editable installation there stays unseen.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return home / "bin"


def test_it_carries_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    # The site shows it: it is outside the packages in the tree and inside one in the wheel.
    assert names == ours | {"service/site/CHANGELOG.md"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    data = {"embedded/artifacts.lock.json", "embedded/log4j2.properties", "sample/data/companies.json"}
    assert data <= names


def test_it_says_what_it_is(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (info,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "\nRequires-Python: >=3.11\n" in metadata
    assert "brokerage = brokerage.command:main" in archive.read(f"{info}/entry_points.txt").decode()


def test_every_package_comes_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    look = f"import importlib; print(*(importlib.import_module(name).__file__ for name in {PACKAGES}), sep='\\n')"
    printed = _run(installed / "python", "-c", look, cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    files = printed.stdout.decode().splitlines()
    assert len(files) == len(PACKAGES)
    assert all(Path(file).is_relative_to(installed.parent) for file in files)


def test_its_commands_work_where_nothing_else_is(installed: Path, tmp_path: Path) -> None:
    assert b"completion" in _run(installed / "brokerage", "--help", cwd=tmp_path).stdout
    assert _run(installed / "brokerage", "openapi", cwd=tmp_path).stdout == (ROOT / "docs/openapi.json").read_bytes()
    written = _run(installed / "brokerage", "sample", "data", "--listings", "5", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert len((tmp_path / "data/listings.ndjson").read_bytes().splitlines()) == 5
