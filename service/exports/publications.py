"""Publications: their manifests, their order, and where they are."""

import asyncio
import errno
import io
import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, NamedTuple, Protocol

import msgspec
from aiohttp import web
from multidict import MultiMapping

from cluster.zstd import zstd
from service.errors import ApiError, EngineUnavailable
from service.http.send_monitor import SendLimits
from service.limits.admission import AdmissionSlot


class NotPublished(ApiError, status=404, code="not-published", title="Not published"):
    """No files are published, or they are no longer served."""

    def __init__(self, resource: str) -> None:
        super().__init__(
            f"No current files are published for these {resource.replace('_', ' ')}. `/v1/snapshot/{resource}` has the "
            "same content."
        )


class FilesForbidden(ApiError, status=403, code="files-forbidden", title="Files hold more than the key may see"):
    """The files hold more than the key may see."""

    def __init__(self, resource: str) -> None:
        super().__init__(
            "Published files hold every field of every record, and this key may not see all of them. "
            f"`/v1/snapshot/{resource}` has what it may see."
        )


class PreconditionFailed(ApiError, status=412, code="precondition-failed", title="Precondition failed"):
    """The file is not the one that `If-Match` names."""

    def __init__(self) -> None:
        super().__init__("The file does not have the ETag in If-Match. Request the manifest again.")


class RangeNotSatisfiable(ApiError, status=416, code="range-not-satisfiable", title="Range not satisfiable"):
    """The range begins after the end of the file."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"The range lies outside the file, which has {size} bytes.", headers={"Content-Range": f"bytes */{size}"}
        )


class StoreUnavailable(EngineUnavailable):
    """The object store with the files does not respond, or refuses."""

    def __init__(self, reason: str) -> None:
        """Take the reason for the log; the response says only when to retry."""
        super().__init__(reason)
        self.detail = "Published files are not available at the moment. Try again shortly."


# Increase it when readers of the previous layout can no longer read it.
FORMAT_VERSION = 1
LATEST_NAME = "manifest.json"
NDJSON_ZSTD = "ndjson.zst"
PARQUET = "parquet"
MEDIA_TYPES = {NDJSON_ZSTD: "application/zstd", PARQUET: "application/vnd.apache.parquet"}
# The time of its start in UTC, to the microsecond, and eight random digits: names sort by time, and never repeat.
PUBLICATION = r"\d{8}T\d{12}Z-[0-9a-f]{8}"
# What may follow in the name of a file: its number, which all files of the same records have, or that of a file of
# changes, table and format.
FILE_NAME = re.compile(
    rf"(?P<publication>{PUBLICATION})-[c\d]\d{{4}}(?:\.[a-z_]+)?\.(?:{'|'.join(map(re.escape, MEDIA_TYPES))})", re.ASCII
)

Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_Format = Annotated[str, msgspec.Meta(pattern=f"^({'|'.join(map(re.escape, MEDIA_TYPES))})$")]


class PublishedFile(msgspec.Struct, frozen=True):
    """One file: its name, format, size in bytes, records or rows, and SHA-256 in hexadecimal digits.

    `last` is the feed key of its last record: files and their records are in the order of a snapshot. `table` is the
    table whose rows it has: the resource, or one of the lists in its records.
    """

    name: str
    format: _Format
    bytes: Count
    records: Count
    sha256: _Sha256
    last: str
    table: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A publication: one company's records of one resource at one moment.

    Its files and its manifest lie in `<company>/<resource>/` and begin with its name; `manifest.json` is a copy of the
    manifest of the latest one. `digest` is that of `/digest`, as 16 hexadecimal digits, of all `records`.

    `token` is the position of the moment, sealed: changes continue from it. `schema` is the fingerprint of the form of
    records, `previous` the name of the publication before. `changes` are files with all changes from the token `since`,
    which is that of the publication before, up to `token`; None if there are none. Times are ISO 8601.
    """

    format: int
    publication: str
    company: str
    resource: str
    published: str
    as_of: str
    schema: str
    token: str
    records: Count
    digest: str
    files: tuple[PublishedFile, ...]
    previous: str | None = None
    since: str | None = None
    changes: tuple[PublishedFile, ...] | None = None

    @property
    def whole_files(self) -> list[PublishedFile]:
        """The files with whole records, without those of typed tables."""
        return [file for file in self.files if file.format == NDJSON_ZSTD]

    def file(self, name: str) -> PublishedFile | None:
        """Return the file of a name, None if the publication has no such file."""
        return next((file for file in (*self.files, *(self.changes or ())) if file.name == name), None)


_decoder = msgspec.json.Decoder(Manifest)


def manifest_name(publication: str) -> str:
    return f"{publication}.json"


def identifiers_name(file: str) -> str:
    """Return the name of the file with the identifiers of a file's records, one a line, compressed with zstd."""
    return f"{file.partition('.')[0]}.ids"


def media_type(name: str) -> str:
    known = {LATEST_NAME.rpartition(".")[2]: "application/json", **MEDIA_TYPES}
    return next((kind for end, kind in known.items() if name.endswith(f".{end}")), "application/octet-stream")


def encode_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest)) + b"\n"


def decode_manifest(text: bytes) -> Manifest:
    """Return the manifest in a text; raise ValueError if it is not one of this version."""
    manifest = _decoder.decode(text)
    if manifest.format != FORMAT_VERSION:
        raise ValueError(f"its format is {manifest.format}, not {FORMAT_VERSION}")
    return manifest


# A manifest, or the identifiers of a file of 256 MB.
_MAX_READ_BYTES = 128 * 1024**2


def require_small(key: str, size: int) -> None:
    """Raise OSError for a file that is larger than any that is read whole."""
    if size > _MAX_READ_BYTES:
        raise OSError(errno.EFBIG, f"it has {size:,} bytes, more than {_MAX_READ_BYTES:,}", key)


# One range. Several, other units and malformed ranges are ignored, and the whole file is sent, as the RFC allows.
_RANGE = re.compile(r"bytes=(?P<first>\d{0,18})-(?P<last>\d{0,18})", re.ASCII | re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?"[^"]*"|\*')


class FileSlice(NamedTuple):
    """The part of a file to send, and the status to send it with; `size` is that of the whole file."""

    status: int
    first: int
    length: int
    size: int

    @property
    def headers(self) -> dict[str, str]:
        """The header that names the part, if it is one."""
        if self.status != HTTPStatus.PARTIAL_CONTENT:
            return {}
        return {"Content-Range": f"bytes {self.first}-{self.first + self.length - 1}/{self.size}"}


def requested_slice(headers: MultiMapping[str], tag: str, size: int) -> FileSlice:
    """Return what a request gets of a file; raise PreconditionFailed or RangeNotSatisfiable.

    Conditions compare the tag alone, the SHA-256 of the file: files have no `Last-Modified`.
    """
    if (required := _tags(headers, "If-Match")) and not {tag, "*"} & required:
        raise PreconditionFailed
    if {tag, f"W/{tag}", "*"} & _tags(headers, "If-None-Match"):
        return FileSlice(HTTPStatus.NOT_MODIFIED, 0, 0, size)
    # A weak tag, another one or a date in If-Range: the whole file.
    if headers.get("If-Range", tag).strip() == tag and (asked := _range(headers.get("Range", ""), size)) is not None:
        first, length = asked
        return FileSlice(HTTPStatus.PARTIAL_CONTENT, first, length, size)
    return FileSlice(HTTPStatus.OK, 0, size, size)


def _tags(headers: MultiMapping[str], name: str) -> set[str]:
    return {*_TAG.findall(", ".join(headers.getall(name, ())))}


def _range(text: str, size: int) -> tuple[int, int] | None:
    """Return the first byte and the length of a range, None if it is to be ignored."""
    match = _RANGE.fullmatch(text.strip())
    if match is None or not (match["first"] or match["last"]):
        return None
    if not match["first"]:
        length = min(int(match["last"]), size)
        if not length:
            raise RangeNotSatisfiable(size)
        return size - length, length
    first, last = int(match["first"]), int(match["last"] or size - 1)
    if match["last"] and last < first:
        return None
    if first >= size:
        raise RangeNotSatisfiable(size)
    return first, min(last, size - 1) - first + 1


_log = logging.getLogger("service")


class FoundFile(NamedTuple):
    """A published file, its manifest, and the folder of both, `company/resource`."""

    manifest: Manifest
    file: PublishedFile
    folder: str

    @property
    def key(self) -> str:
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
        """Return the identifiers of the records in a file; raise FileNotFoundError if they are gone or unusable."""
        key = f"{found.folder}/{identifiers_name(found.file.name)}"
        try:
            return await asyncio.to_thread(_unpacked_lines, await self.storage.read(key))
        except FileNotFoundError:
            raise
        except (OSError, ValueError, EOFError, zstd.ZstdError) as error:
            self._report(key, error)
            raise FileNotFoundError(key) from error

    async def _read(self, key: str) -> Manifest | None:
        try:
            return _manifest_at(key, decode_manifest(await self.storage.read(key)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._report(key, error)
            return None

    def _report(self, key: str, error: Exception) -> None:
        _log.error("%s/%s cannot be used: %s. Run `brokerage index publish`.", self.storage, key, error)


def _manifest_at(key: str, manifest: Manifest) -> Manifest:
    """Return a manifest; raise ValueError if another folder is its own, whose files are for other keys."""
    if (place := f"{manifest.company}/{manifest.resource}") != key.rpartition("/")[0]:
        raise ValueError(f"it is a manifest of {place}")
    return manifest


# Of the identifiers of one file: four million of the longest. What is packed can be a thousand times as long.
_MAX_IDENTIFIER_BYTES = 512 * 1024**2


def _unpacked_lines(data: bytes) -> list[str]:
    """Return the lines of compressed text; raise ValueError, EOFError or ZstdError."""
    with zstd.open(io.BytesIO(data), "rb") as packed:
        text = packed.read(_MAX_IDENTIFIER_BYTES + 1)
    if len(text) > _MAX_IDENTIFIER_BYTES:
        raise ValueError(f"it unpacks to more than {_MAX_IDENTIFIER_BYTES:,} bytes")
    return text.decode().splitlines()
