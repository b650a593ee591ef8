"""A side of a verification that is read once: its entries are kept in a temporary file for later passes.

Parsing a source costs some 35 µs of CPU time per line, and fetching documents more; reading an entry back about 1.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile, gettempdir
from typing import IO

import msgspec

from indexer.errors import report_folder_errors
from indexer.verify.sides import RecordState, VerificationSide
from mappings.digest import coarse_bucket

_ADVICE = "Set TMPDIR to a folder with free space: about 70 bytes for each record."
_LENGTH_BYTES = 4
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[RecordState]).decode


class RecordedSide:
    """The entries of a side, in pages."""

    def __init__(self, side: VerificationSide, file: IO[bytes]) -> None:
        self._side = side
        self._file = file

    async def record(self) -> AsyncIterator[list[RecordState]]:
        """Yield all pages of the side and keep them; raise WorkFolderError if the file cannot be written."""
        async for page in self._side.records():
            await asyncio.to_thread(self._keep, page)
            yield page

    def _keep(self, page: list[RecordState]) -> None:
        data = _encode(page)
        with report_folder_errors(gettempdir(), _ADVICE):
            self._file.write(len(data).to_bytes(_LENGTH_BYTES, "big") + data)

    async def recorded(self, wanted: Collection[int]) -> AsyncIterator[list[RecordState]]:
        """Yield the kept entries in some coarse buckets of `mappings.digest`."""
        with report_folder_errors(gettempdir(), _ADVICE):
            self._file.seek(0)
        while (page := await asyncio.to_thread(self._next, wanted)) is not None:
            yield page

    def _next(self, wanted: Collection[int]) -> list[RecordState] | None:
        if not (length := self._file.read(_LENGTH_BYTES)):
            return None
        page = _decode(self._file.read(int.from_bytes(length, "big")))
        return [entry for entry in page if coarse_bucket(entry.id) in wanted]


@contextmanager
def recorded(side: VerificationSide) -> Iterator[RecordedSide]:
    """Open a side that is read once; raise WorkFolderError if there is no space for it."""
    with report_folder_errors(gettempdir(), _ADVICE):
        file = TemporaryFile()  # noqa: SIM115 - closed below
    with file:
        yield RecordedSide(side, file)
