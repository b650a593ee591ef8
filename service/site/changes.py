"""What partners need to know of the changelog: its entries marked *API*."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from service.site.pages import FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "CHANGELOG.md"
_MARK = "- *API* "
_RELEASE = re.compile(r"(?m)^## ")
_ENTRY = re.compile(r"(?m)^- (?:.+\n?)(?: .+\n?)*")


def changes() -> str:
    """Return, for each release that partners see anything of, a heading and its entries."""
    return "\n".join(section for release in _RELEASE.split(_changelog())[1:] for section in _seen(release))


def _seen(release: str) -> Iterator[str]:
    entries = [entry for entry in _ENTRY.findall(release) if entry.startswith(_MARK)]
    if entries:
        yield f"## {release.splitlines()[0]}\n"
        yield from (f"- {entry.removeprefix(_MARK).strip()}" for entry in entries)
        yield ""


def _changelog() -> str:
    """Return the whole file, which a package holds beside this module and a checkout at its root."""
    packaged = FOLDER.joinpath(FILE)
    found = packaged if packaged.is_file() else Path(__file__).parents[2] / FILE
    return found.read_text(encoding="utf-8")
