"""`docs/architecture.md` lists every room of the packages that it describes, and no other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.architecture.graph import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PAGE = (ROOT / "docs" / "architecture.md").read_text()
_TABLES = re.compile(r"(?m)^\| room of `(\w+)` \| contents \|\n\|---\|---\|\n((?:\|.*\n)+)")
_LISTED = {
    package: re.findall(r"`(\w+)/?`", "".join(row.split("|")[1] for row in rows.splitlines()))
    for package, rows in _TABLES.findall(_PAGE)
}


def _rooms(package: Path) -> Iterator[str]:
    for path in package.iterdir():
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists():
            yield path.stem


@pytest.mark.parametrize("package", ["service", "indexer", "cluster", "brokerage"])
def test_the_page_lists_every_room_once(package: str) -> None:
    assert sorted(_LISTED[package]) == sorted(_rooms(ROOT / package))
