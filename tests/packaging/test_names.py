"""No page and no message installs a distribution of ours from a package index, where the names are not ours."""

import re
from pathlib import Path

import pytest

from tests.architecture.graph import MODULES, ROOT

_INSTALLED = re.compile(r"(?:pip|pipx|uv tool|uv pip) install ['\"\\]*(brokerage[\w-]*)")
_OTHER_FOLDERS = {".venv", ".git", ".pytest_cache", "node_modules", "dist", "build"}
_PAGES = sorted(path for path in ROOT.rglob("*.md") if not _OTHER_FOLDERS & {*path.relative_to(ROOT).parts})
_TEXTS = [path for path in [*_PAGES, *MODULES] if path.name != "CHANGELOG.md"]


@pytest.mark.parametrize("path", _TEXTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_of_ours_is_installed_from_an_index(path: Path) -> None:
    assert _INSTALLED.findall(path.read_text(encoding="utf-8")) == []


def test_such_a_command_is_found() -> None:
    assert _INSTALLED.findall("pip install 'brokerage-feed[parquet]'") == ["brokerage-feed"]
    assert _INSTALLED.findall('pipx install "brokerage-server"') == ["brokerage-server"]
