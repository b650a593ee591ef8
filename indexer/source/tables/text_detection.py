"""The encoding and the delimiter of a table, detected from its bytes where the column map does not state them."""

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from charset_normalizer import from_bytes

from indexer.source.compression import DAMAGE, report_damage

UTF_8 = "utf-8"
WESTERN = "cp1252"
DELIMITERS = ",;\t|"
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_BLOCK_BYTES = 1 << 20
_HEADER_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 16
# What exports of American and European programs are written in.
_CANDIDATES = ["cp1252", "mac_roman", "cp1250", "cp1251", "cp1253", "cp1254", "cp437", "cp850"]
_CANDIDATES += ["shift_jis", "gb18030", "big5"]
_WESTERN_NAMES = {"cp1252", "latin_1", "iso8859_15", "cp1254", "cp1250", "iso8859_2"}


class DetectionNote(NamedTuple):
    """Something unusual that was detected, the key that declares it, and words of the text that depend on it."""

    found: str
    key: str
    words: str = ""


class TextDialect(NamedTuple):
    """How the bytes of a table are text."""

    encoding: str
    delimiter: str
    notes: tuple[DetectionNote, ...]


def detected_form(plain: io.BufferedReader, file: str, encoding: str | None, delimiter: str | None) -> TextDialect:
    """Return the declared or detected encoding and delimiter; reads the stream to its end if it has no encoding.

    A file with at least one line that is valid UTF-8 beyond ASCII is UTF-8: its other lines are damaged. Raises
    SourceError if the stream cannot be read.
    """
    notes = []
    with report_damage(file, lambda: 0):
        head = plain.read(_HEADER_BYTES)
    if encoding is None:
        encoding, words = _encoding(head, plain)
        if encoding != UTF_8:
            notes.append(DetectionNote(f"read as {encoding}", "encoding", words))
    if delimiter is None:
        delimiter = _delimiter(head, encoding)
        if delimiter != ",":
            notes.append(DetectionNote(f"read with the delimiter {delimiter!r}", "delimiter"))
    return TextDialect(encoding, delimiter, tuple(notes))


def _encoding(head: bytes, plain: io.BufferedReader) -> tuple[str, str]:
    """Return the encoding and, for a legacy one, some words of the text that depend on it."""
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name, ""
    if b"\0" in head[:2]:
        return ("utf-16-be" if head[:1] == b"\0" else "utf-16-le"), ""
    lines = list(_lines_beyond_ascii(chain([head], iter(lambda: _next_block(plain), b""))))
    if not lines or any(map(_is_utf8, lines)):
        return UTF_8, ""
    sample = b"\n".join(lines)
    encoding = _legacy_encoding(sample)
    return encoding, _words(sample.decode(encoding, "replace"))


def _legacy_encoding(sample: bytes) -> str:
    matches = from_bytes(sample, cp_isolation=_CANDIDATES)
    names = {name for match in matches for name in (match.encoding, *match.could_be_from_charset)}
    best = matches.best()
    return WESTERN if best is None or names & _WESTERN_NAMES else str(best.encoding)


def _lines_beyond_ascii(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines with bytes beyond ASCII; the parts of a line that is in two blocks are joined."""
    size, part = 0, b""
    for block in chain(blocks, [b"\n"]):
        if not block.isascii() or not part.isascii():
            *lines, part = (part + block).split(b"\n")
            for line in lines:
                if not line.isascii() and (size := size + len(line)) <= _SAMPLE_BYTES:
                    yield line
        else:
            part = block[block.rfind(b"\n") + 1 :]
        part = part[-_BLOCK_BYTES:]


def _next_block(plain: io.BufferedReader) -> bytes:
    try:
        return plain.read(_BLOCK_BYTES)
    except DAMAGE:
        return b""  # reading the rows reports it, with the line


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _words(text: str) -> str:
    words = [word for word in re.split(r"[\s,;|\"]+", text) if not word.isascii()]
    return ", ".join(list(dict.fromkeys(words))[:3])


def _delimiter(head: bytes, encoding: str) -> str:
    """Return the delimiter that makes the most columns of the header; a comma if there is only one column."""
    lines = head.decode(encoding, "replace").lstrip("\ufeff").splitlines()
    header = next((line for line in lines if line.strip()), "")
    return max(DELIMITERS, key=lambda sign: _columns(header, sign))


def _columns(header: str, delimiter: str) -> int:
    try:
        return len(next(csv.reader([header], delimiter=delimiter), []))
    except csv.Error:
        return 0
