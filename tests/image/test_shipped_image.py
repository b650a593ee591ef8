"""What the image holds: the product, and nothing with which to install, compile or open something."""

from __future__ import annotations

import mmap
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.image.image_build import CANARY, ROOT
from tests.packaging.test_supply_chain import SERVICES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.image.podman import Podman

_TOOLS = ("pip", "pip3", "gcc", "cc", "g++", "c++", "as", "ld", "make", "git", "curl", "wget")
_DOCUMENTED = {"PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "BROKERAGE_HOST"}
_WRITABLE = "find / -xdev -writable ! -type l ! -path '/proc/*' ! -path '/dev/*' 2>/dev/null; true"
# Of the official base image.
_OF_THE_BASE = {"LANG", "GPG_KEY", "PYTHON_VERSION", "PYTHON_SHA256", "container"}


@pytest.fixture(scope="session")
def root(podman: Podman, image: str) -> Iterator[Path]:
    """The root folder of the image."""
    yield Path(podman.run("image", "mount", image).strip())
    podman.run("image", "unmount", image)


def _shell(podman: Podman, image: str, script: str, *flags: str) -> str:
    return podman.run("run", "--rm", "--entrypoint=sh", *flags, image, "-c", script)


def test_nothing_installs_or_compiles(podman: Podman, image: str) -> None:
    found = _shell(podman, image, f"for tool in {' '.join(_TOOLS)}; do command -v $tool; done; true")
    assert found == ""
    modules = "import importlib.util as u; print([m for m in ('pip', 'ensurepip') if u.find_spec(m)])"
    assert _shell(podman, image, f'for p in python /usr/bin/python3; do $p -c "{modules}"; done') == "[]\n[]\n"


def test_no_layer_and_no_file_holds_a_secret_of_the_build(podman: Podman, image: str, root: Path) -> None:
    assert [path for path in _files(root) if _holds(path, CANARY.encode())] == []
    history = podman.run("history", "--no-trunc", "--format={{.CreatedBy}}", image)
    assert "COPY" in history
    assert CANARY not in history


def _files(root: Path) -> Iterator[Path]:
    return (path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and path.stat().st_size)


def _holds(path: Path, word: bytes) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(word) >= 0


def test_tests_benchmarks_and_documents_stay_outside(root: Path) -> None:
    (packages,) = root.glob("opt/brokerage/lib/python3*/site-packages")
    ours = {path.name for path in ROOT.iterdir() if path.is_dir()}
    assert {path.name for path in packages.iterdir()} & ours == {
        "brokerage", "cluster", "embedded", "indexer", "mappings", "sample", "service",
    }  # fmt: skip
    assert not [path for path in root.rglob("*") if path.name in {".git", "conftest.py"} and "numpy" not in path.parts]


def test_its_user_owns_and_writes_nothing_outside_temporary_folders(podman: Podman, image: str) -> None:
    writable = _shell(podman, image, _WRITABLE)
    places = {"/tmp", "/var/tmp", "/run/lock"}  # noqa: S108 - in the container
    assert set(writable.split()) <= places


def test_what_it_says_of_itself(podman: Podman, image: str) -> None:
    def config(member: str) -> str:
        return podman.run("image", "inspect", image, f"--format={{{{{member}}}}}").strip()

    assert config(".Config.User") == "65532:65532"
    assert config(".Config.StopSignal") == "SIGTERM"
    assert config(".Config.Entrypoint") == "[brokerage]"
    assert config(".Config.ExposedPorts") == "map[8080/tcp:{}]"
    assert config(".HealthCheck.Interval") == "10s"
    names = {line.partition("=")[0] for line in config('join .Config.Env "\\n"').splitlines()}
    assert names >= _DOCUMENTED
    assert names <= _DOCUMENTED | _OF_THE_BASE
    assert SERVICES["service"]["build"] == "."
