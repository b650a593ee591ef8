"""The headers of responses on a published file."""

import base64

from service.exports.byte_ranges import FileSlice
from service.exports.manifest import MEDIA_TYPES, PublishedFile
from service.http.headers import OPERATION_HEADERS


def entity_tag(file: PublishedFile) -> str:
    """Return the strong tag of a file: its SHA-256, so that all workers and hosts agree."""
    return f'"{file.sha256}"'


def validators(file: PublishedFile) -> dict[str, str]:
    """Return the headers of any response, whether it has bytes of the file or not."""
    digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
    return {
        **OPERATION_HEADERS,
        "ETag": entity_tag(file),
        "Accept-Ranges": "bytes",
        "Repr-Digest": f"sha-256=:{digest}:",
    }


def content_headers(file: PublishedFile, part: FileSlice) -> dict[str, str]:
    """Return the headers that describe the bytes of a response."""
    return {
        **part.headers,
        "Content-Type": MEDIA_TYPES[file.format],
        "Content-Disposition": f'attachment; filename="{file.name}"',
    }
