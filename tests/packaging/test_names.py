"""What pages and messages say to install are distributions of this tree, with extras that they have."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.architecture.graph import CLIENT, MODULES, ROOT

_PROJECTS = {
    project["name"]: set(project["optional-dependencies"])
    for folder in (ROOT, CLIENT)
    for project in [tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]]
}
_INSTALLED = re.compile(r"(?:pip|pipx|uv tool|uv pip) install ['\"\\]*(brokerage[\w-]*)(?:\[(\w+)\])?")
_EXTRA = re.compile(r"\b(brokerage[\w-]*)\[(\w+)\]")
_OTHER_FOLDERS = {".venv", ".git", "node_modules", "dist", "build"}
_PAGES = sorted(path for path in ROOT.rglob("*.md") if not _OTHER_FOLDERS & {*path.relative_to(ROOT).parts})
# What was installed before has another name in what was written before.
_TEXTS = [path for path in [*_PAGES, *MODULES] if path.name != "CHANGELOG.md"]


@pytest.mark.parametrize("path", _TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_is_to_be_installed_is_ours(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = {*_INSTALLED.findall(text), *_EXTRA.findall(text)}
    assert [(name, extra) for name, extra in named if name not in _PROJECTS] == []
    assert [(name, extra) for name, extra in named if extra and extra not in _PROJECTS[name]] == []


def test_names_of_strangers_are_found() -> None:
    assert _INSTALLED.findall("pip install 'brokerage[parquet]'") == [("brokerage", "parquet")]
    assert _INSTALLED.findall('pip install "brokerage-server"') == [("brokerage-server", "")]
