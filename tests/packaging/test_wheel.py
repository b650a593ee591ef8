"""The wheel of the server: what is in it, what is not, and that it works where nothing else of the repository is."""

import re
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from service.site.operating import OPERATING_PAGES
from tests.architecture.graph import ALLOWED, CLIENT, ROOT
from tests.packaging.wheels import build_wheel, install_wheels, run

PACKAGES = sorted(set(ALLOWED) - {"bench", "brokerage_feed"})


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network by what is installed."""
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a fresh environment that holds both wheels, and sees what they need and no more."""
    client = build_wheel(CLIENT, tmp_path_factory.mktemp("client"))
    return install_wheels(tmp_path_factory.mktemp("installed"), "brokerage-server[redis]", wheel, client)


def test_it_carries_every_file_of_the_packages_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    ours = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    # The site shows them: they are outside the packages in the tree and inside one in the wheel.
    guide = {f"service/site/guide/{file}" for files in OPERATING_PAGES.values() for file in files}
    assert names == ours | guide | {"service/site/CHANGELOG.md"}
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    data = {"embedded/artifacts.lock.json", "embedded/log4j2.properties", "sample/data/companies.json"}
    assert data <= names


def _metadata(wheel: Path) -> Message:
    archive = zipfile.ZipFile(wheel)
    (info,) = {name.partition("/")[0] for name in archive.namelist() if ".dist-info/" in name}
    assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    return message_from_bytes(archive.read(f"{info}/METADATA"))


def test_it_says_what_it_is(wheel: Path) -> None:
    metadata = _metadata(wheel)
    assert (metadata["Name"], metadata["License-Expression"]) == ("brokerage-server", "Apache-2.0")
    assert metadata["Requires-Python"] == ">=3.11"
    assert "application" in metadata["Summary"]
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    assert metadata["Keywords"]
    assert metadata["Author"]


def test_it_says_that_it_needs_an_environment_of_its_own(wheel: Path) -> None:
    text = str(_metadata(wheel).get_payload())
    named = {name for name in PACKAGES if f"`{name}`" in text}
    assert named == {*PACKAGES}


@pytest.mark.parametrize("page", [ROOT / "PACKAGE.md", CLIENT / "README.md"])
def test_a_page_of_an_index_links_to_no_file_and_no_picture_of_the_repository(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [link for link in re.findall(r"\]\(([^)]*)\)|<(?:img|a) ", text) if "://" not in link] == []


def test_server_and_client_have_one_version() -> None:
    ours, theirs = (
        tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"] for folder in (ROOT, CLIENT)
    )
    assert ours["version"] == theirs["version"]
    assert f"brokerage-feed=={theirs['version']}" in ours["dependencies"]


def test_every_package_comes_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    look = f"import importlib; print(*(importlib.import_module(name).__file__ for name in {PACKAGES}), sep='\\n')"
    printed = run(installed / "python", "-c", look, cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    files = printed.stdout.decode().splitlines()
    assert len(files) == len(PACKAGES)
    assert all(Path(file).is_relative_to(installed.parent) for file in files)


def test_its_commands_work_where_nothing_else_is(installed: Path, tmp_path: Path) -> None:
    assert b"completion" in run(installed / "brokerage", "--help", cwd=tmp_path).stdout
    assert run(installed / "brokerage", "openapi", cwd=tmp_path).stdout == (ROOT / "docs/openapi.json").read_bytes()
    written = run(installed / "brokerage", "sample", "data", "--listings", "5", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert len((tmp_path / "data/listings.ndjson").read_bytes().splitlines()) == 5
