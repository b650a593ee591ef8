"""The folder of publications, as the service reads it: by company, resource and name, never by a path."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from service.exports.manifest import FILE_NAME, LATEST_NAME, Manifest, decode_manifest, manifest_name

if TYPE_CHECKING:
    from pathlib import Path

    from service.exports.manifest import PublishedFile

_log = logging.getLogger("service")


class FoundFile(NamedTuple):
    """A published file, its manifest and where it is."""

    manifest: Manifest
    file: PublishedFile
    path: Path


class ExportFolder:
    """The publications in a folder. Company and resource are known names, which contain neither slash nor dot."""

    def __init__(self, root: Path) -> None:
        """Read below `root`."""
        self.root = root

    def folder(self, company: str, resource: str) -> Path:
        """Return the folder with the publications of a company's resource."""
        return self.root / company / resource

    def latest(self, company: str, resource: str) -> Manifest | None:
        """Return the manifest of the latest publication, None without one."""
        return _read(self.folder(company, resource) / LATEST_NAME)

    def earlier(self, manifest: Manifest) -> Manifest | None:
        """Return the manifest of the publication before one, None if it is gone."""
        if manifest.previous is None:
            return None
        return _read(self.folder(manifest.company, manifest.resource) / manifest_name(manifest.previous))

    def find(self, company: str, resource: str, name: str) -> FoundFile | None:
        """Return a file of any kept publication by the name that a client sent, None if there is none."""
        if (match := FILE_NAME.fullmatch(name)) is None:
            return None
        folder = self.folder(company, resource)
        manifest = _read(folder / manifest_name(match["publication"]))
        file = None if manifest is None else manifest.file(name)
        return None if manifest is None or file is None else FoundFile(manifest, file, folder / name)


def _read(path: Path) -> Manifest | None:
    try:
        return decode_manifest(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _log.error("%s cannot be used: %s. Run `brokerage index publish`.", path, error)
        return None
