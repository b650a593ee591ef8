"""Deletion of earlier publications, of what killed runs have left, and of companies that no longer exist."""

import re
from collections.abc import Collection
from pathlib import Path

from mappings import RESOURCES
from service.exports.manifest import LATEST_NAME, PUBLICATION
from service.publishing.publish_target import PublishTarget

# Files of publications, and parts of manifests; nothing else is ever deleted.
_PUBLISHED = re.compile(rf"(?P<publication>{PUBLICATION})[-.].*|{re.escape(LATEST_NAME)}(?:\.part)?")
_MANIFEST = re.compile(rf"{PUBLICATION}\.json")


def prune_publications(target: PublishTarget, folder: Path, kept: int) -> None:
    """Delete all but the latest `kept` publications of a company's resource, and files without a manifest."""
    names = target.names(folder)
    complete = sorted(name.partition(".")[0] for name in names if _MANIFEST.fullmatch(name))
    stays = {*complete[-kept:]}
    # Manifests first: what a manifest lists exists.
    for name in sorted(names, key=lambda each: not each.endswith(".json")):
        found = _PUBLISHED.fullmatch(name)
        if found is not None and name != LATEST_NAME and found["publication"] not in stays:
            target.delete(folder / name)


def prune_companies(target: PublishTarget, companies: Collection[str]) -> None:
    """Delete the publications of companies that are not among those that exist."""
    for company in target.companies():
        if company not in companies:
            for resource in RESOURCES:
                _remove_publications(target, target.root / company / resource.alias)
            target.remove_empty(target.root / company)


def _remove_publications(target: PublishTarget, folder: Path) -> None:
    for name in sorted(target.names(folder), key=lambda each: each != LATEST_NAME):
        if _PUBLISHED.fullmatch(name):
            target.delete(folder / name)
    target.remove_empty(folder)
