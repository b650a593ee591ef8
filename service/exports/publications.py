"""Publications, as the service reads them: by company, resource and name, never by a path of a request."""

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from aiohttp import web

from cluster.zstd import zstd
from service.exports.byte_ranges import FileSlice
from service.exports.manifest import (
    FILE_NAME,
    LATEST_NAME,
    Manifest,
    PublishedFile,
    decode_manifest,
    identifiers_name,
    manifest_name,
)
from service.http.send_monitor import SendLimits
from service.limits.admission_lane import AdmissionSlot

_log = logging.getLogger("service")


class FoundFile(NamedTuple):
    """A published file, its manifest, and the folder of both, `company/resource`."""

    manifest: Manifest
    file: PublishedFile
    folder: str

    @property
    def key(self) -> str:
        """Where the file is."""
        return f"{self.folder}/{self.file.name}"


class Delivery(NamedTuple):
    """How a part of a file is to be delivered: with a slot to hold while bytes are sent, and the rule for slow clients.

    `validators` are the headers of any response on the file.
    """

    part: FileSlice
    validators: Mapping[str, str]
    slot: AdmissionSlot
    limits: SendLimits
    is_head: bool


class FileStorage(Protocol):
    """What keeps published files by keys such as `acme/listings/manifest.json`: a folder or an object store."""

    async def read(self, key: str) -> bytes:
        """Return a small file; raise FileNotFoundError, OSError or ApiError."""

    async def deliver(self, found: FoundFile, delivery: Delivery) -> web.Response:
        """Return the response with a part of a file, or with where it is; raise FileNotFoundError or ApiError.

        A response that is not sent is to be closed.
        """

    async def check(self) -> None:
        """Do nothing if files can be read and delivered; raise OSError or ApiError."""


class Publications:
    """The publications in a storage. Company and resource are known names, which contain neither slash nor dot."""

    def __init__(self, storage: FileStorage) -> None:
        """Read from `storage`."""
        self.storage = storage

    async def latest(self, company: str, resource: str) -> Manifest | None:
        """Return the manifest of the latest publication, None without one."""
        return await self._read(f"{company}/{resource}/{LATEST_NAME}")

    async def earlier(self, manifest: Manifest) -> Manifest | None:
        """Return the manifest of the publication before one, None if it is gone."""
        if manifest.previous is None:
            return None
        return await self._read(f"{manifest.company}/{manifest.resource}/{manifest_name(manifest.previous)}")

    async def find(self, company: str, resource: str, name: str) -> FoundFile | None:
        """Return a file of any kept publication by the name that a client sent, None if there is none."""
        if (match := FILE_NAME.fullmatch(name)) is None:
            return None
        folder = f"{company}/{resource}"
        manifest = await self._read(f"{folder}/{manifest_name(match['publication'])}")
        file = None if manifest is None else manifest.file(name)
        return None if manifest is None or file is None else FoundFile(manifest, file, folder)

    async def identifiers(self, found: FoundFile) -> Sequence[str]:
        """Return the identifiers of the records in a file; raise FileNotFoundError if they are gone."""
        data = await self.storage.read(f"{found.folder}/{identifiers_name(found.file.name)}")
        return zstd.decompress(data).decode().splitlines()

    async def _read(self, key: str) -> Manifest | None:
        try:
            return decode_manifest(await self.storage.read(key))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            _log.error("%s/%s cannot be used: %s. Run `brokerage index publish`.", self.storage, key, error)
            return None
