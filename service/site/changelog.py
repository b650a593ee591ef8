"""The API changelog: the entries of the changelog marked *API*."""

import re
from collections.abc import Iterator
from pathlib import Path

from service.site.pages import SITE_FILES

CHANGELOG_FILE = "CHANGELOG.md"
_MARK = "- *API* "
_FOR_OPERATORS = re.compile(r"^\*reindex\* ")
_RELEASE = re.compile(r"(?m)^## ")
_ENTRY = re.compile(r"(?m)^- (?:.+\n?)(?: .+\n?)*")


def api_changelog() -> str:
    """Return a heading and the API entries of each release that has any."""
    return "\n".join(section for release in _RELEASE.split(_changelog())[1:] for section in _api_entries(release))


def _api_entries(release: str) -> Iterator[str]:
    entries = [entry for entry in _ENTRY.findall(release) if entry.startswith(_MARK)]
    if entries:
        yield f"## {release.splitlines()[0]}\n"
        yield from (f"- {_FOR_OPERATORS.sub('', entry.removeprefix(_MARK)).strip()}" for entry in entries)
        yield ""


def _changelog() -> str:
    """Return the changelog file: packages contain it next to this module, a checkout at its root."""
    packaged = SITE_FILES.joinpath(CHANGELOG_FILE)
    file = packaged if packaged.is_file() else Path(__file__).parents[2] / CHANGELOG_FILE
    return file.read_text(encoding="utf-8")
