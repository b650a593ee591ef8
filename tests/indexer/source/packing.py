"""How the bytes of a source file may be compressed, by the end of its name."""

import gzip
import io
import zipfile
from collections.abc import Callable

import zstandard

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}


def zipped(data: bytes, name: str = "table.csv") -> bytes:
    """Return an archive of one file."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return packed.getvalue()
