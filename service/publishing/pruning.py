"""Deletion of earlier publications, of what killed runs have left, and of companies that no longer exist."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mappings import RESOURCES
from service.exports.manifest import LATEST_NAME, PUBLICATION

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

# Files of publications, and parts of manifests; nothing else is ever deleted.
_PUBLISHED = re.compile(rf"(?P<publication>{PUBLICATION})[-.].*|{re.escape(LATEST_NAME)}(?:\.part)?")
_MANIFEST = re.compile(rf"{PUBLICATION}\.json")


def prune_publications(folder: Path, kept: int) -> None:
    """Delete all but the latest `kept` publications of a company's resource, and files without a manifest."""
    complete = sorted(path.stem for path in folder.iterdir() if _MANIFEST.fullmatch(path.name))
    stays = {*complete[-kept:]}
    # Manifests first: what a manifest lists exists.
    for path in sorted(folder.iterdir(), key=lambda each: each.suffix != ".json"):
        found = _PUBLISHED.fullmatch(path.name)
        if found is not None and path.name != LATEST_NAME and found["publication"] not in stays:
            path.unlink(missing_ok=True)


def prune_companies(root: Path, companies: Collection[str]) -> None:
    """Delete the publications of companies that are not among those that exist."""
    for company in root.iterdir():
        if company.is_dir() and company.name not in companies:
            for resource in RESOURCES:
                _remove_publications(company / resource.alias)
            _remove_empty(company)


def _remove_publications(folder: Path) -> None:
    if folder.is_dir():
        for path in sorted(folder.iterdir(), key=lambda each: each.name != LATEST_NAME):
            if _PUBLISHED.fullmatch(path.name):
                path.unlink(missing_ok=True)
        _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()
