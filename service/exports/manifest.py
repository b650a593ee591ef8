"""The manifest of a publication: what its files hold, and the position from which changes continue.

A publication is one company's records of one resource at one moment. Its files and its manifest lie in
`<company>/<resource>/` and begin with its name; `manifest.json` is a copy of the manifest of the latest one.
"""

import re
from typing import Annotated

import msgspec

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

Count = Annotated[int, msgspec.Meta(ge=0)]


class PublishedFile(msgspec.Struct, frozen=True):
    """One file: its name, format, size in bytes, records or rows, and SHA-256 in hexadecimal digits.

    `last` is the feed key of its last record: files and their records are in the order of a snapshot. `table` is the
    table whose rows it has: the resource, or one of the lists in its records.
    """

    name: str
    format: str
    bytes: Count
    records: Count
    sha256: str
    last: str
    table: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A publication. `digest` is that of `/digest`, as 16 hexadecimal digits, of all `records`.

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
    """Return the name of the manifest of a publication."""
    return f"{publication}.json"


def identifiers_name(file: str) -> str:
    """Return the name of the file with the identifiers of a file's records, one a line, compressed with zstd."""
    return f"{file.partition('.')[0]}.ids"


def media_type(name: str) -> str:
    """Return the media type of a file of a publication by its name."""
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
