"""Bulk bodies in a file: what the indexer would send of a source, made once and read back one at a time."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import orjson

from indexer import IndexerSettings, companies
from indexer.directory import Directory
from indexer.intake import Chunks, Intake
from mappings import LISTING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The number of documents, and the bytes of the body that follows.
_HEAD = struct.Struct("<II")


def write_bodies(source: Path, target: Path) -> None:
    """Write the bodies of a folder's listings."""
    opened = Directory(source)
    with target.open("wb") as file, opened.open(LISTING) as reading:
        chunks = Chunks(Intake(LISTING, companies.from_source(opened)), reading, IndexerSettings())
        while (chunk := chunks.next()) is not None:
            parts: list[bytes] = []
            for draft in chunk.drafts:
                head = b'{"index":{"_id":%b,"version":%d,"version_type":"external"}}\n'
                parts += (head % (orjson.dumps(draft.id), draft.version), draft.source(1, 1), b"\n")
            body = b"".join(parts)
            file.write(_HEAD.pack(len(chunk.drafts), len(body)) + body)


def written(target: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the number of documents and the bytes of each body."""
    with target.open("rb") as file:
        while head := file.read(_HEAD.size):
            documents, size = _HEAD.unpack(head)
            yield documents, file.read(size)
