"""Files of independent zstd frames with a seek table at the end, as of Zstandard's seekable format, version 0.1.0.

Any decoder of zstd reads such a file from its start, because it skips the table. A reader that knows the table starts
at any frame.
"""

import struct
from dataclasses import dataclass, field
from hashlib import sha256
from typing import IO

from cluster.zstd import zstd

# Of the dictionary search; a higher one takes twice the time for a tenth fewer bytes.
_LEVEL = 3
_SKIPPABLE_FRAME, _SEEK_TABLE = 0x184D2A5E, 0x8F92EAB1
_entry = struct.Struct("<II").pack
_footer = struct.Struct("<IBI").pack


@dataclass
class FrameWriter:
    """Writes frames to a file, and keeps their sizes and the SHA-256 of all bytes."""

    file: IO[bytes]
    size: int = 0
    _entries: list[bytes] = field(default_factory=list)
    _hash: object = field(default_factory=sha256)

    def add(self, content: bytes) -> None:
        """Append a frame with the content."""
        frame = zstd.compress(content, _LEVEL)
        self._entries.append(_entry(len(frame), len(content)))
        self._write(frame)

    def finish(self) -> str:
        """Append the seek table; return the SHA-256 of the file."""
        entries = b"".join(self._entries)
        footer = _footer(len(self._entries), 0, _SEEK_TABLE)
        self._write(_entry(_SKIPPABLE_FRAME, len(entries) + len(footer)) + entries + footer)
        return self._hash.hexdigest()  # type: ignore[attr-defined,no-any-return]

    def _write(self, data: bytes) -> None:
        self.file.write(data)
        self._hash.update(data)  # type: ignore[attr-defined]
        self.size += len(data)
