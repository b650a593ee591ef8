"""TOML files that operators write: column maps and maps of sources, read within bounds.

The standard parser needs gigabytes for a few kilobytes of dots, and some of its own limits are not TOML errors.
"""

import math
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from indexer.errors import SourceError

_MAX_BYTES = 1 << 20
# Tables and lists within each other; and parts of a name, which are looked for in texts, too.
_MAX_DEPTH, _MAX_PARTS = 16, 32
_MAX_TEXT = 65_536
# Characters of a name in a message.
_SHOWN = 100
# Possessive: a long name is looked at once.
_PART = r"(?:[A-Za-z0-9_-]++|\"[^\"\n]*\"|'[^'\n]*')"
_LONG_NAME = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{_MAX_PARTS},}}+")
_NAME_END = re.compile(r"[ \t]*[=\]]")
# A number of so many digits is of no use, and the parser refuses some of them with an error of its own.
_LONG_NUMBER = re.compile(r"(?<![A-Za-z0-9_])[0-9][0-9_]{1000}")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the content of a TOML file; raise SourceError, which names the file and the line or key at fault."""
    text = _read(path)
    for start, fault in _excesses(text):
        raise SourceError(f"{path.name}: line {text.count(chr(10), 0, start) + 1}: {fault}.")
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise SourceError(f"{path.name}: tables or lists are nested too deeply.") from None
    except ValueError as error:
        raise SourceError(f"{path.name} is not valid TOML: {error}.") from error
    for key, fault in _faults(content, "", 0):
        raise SourceError(f"{path.name}: {key}: {fault}.")
    return content


def _excesses(text: str) -> Iterator[tuple[int, str]]:
    """Yield where a text has what must not reach the parser, and what that is."""
    for name in _LONG_NAME.finditer(text):
        # Else it is part of a text.
        if _NAME_END.match(text, name.end()):
            yield name.start(), f"a name has more than {_MAX_PARTS} parts"
    for number in _LONG_NUMBER.finditer(text):
        yield number.start(), "a number has more than 1,000 digits"


def _read(path: Path) -> str:
    try:
        # A pipe would be waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise SourceError(f"{path} is not a regular file.")
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{path} cannot be opened: {error.strerror}.") from error
    if len(content) > _MAX_BYTES:
        raise SourceError(f"{path.name} has more than {_MAX_BYTES:,} bytes.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SourceError(f"{path.name}: line {line} is not valid UTF-8.") from error


def _faults(value: object, key: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield what no map has, with its key: depth, and numbers and texts that nothing can hold."""
    if depth > _MAX_DEPTH:
        yield key, f"more than {_MAX_DEPTH} tables and lists are in each other"
    elif isinstance(value, dict):
        for name, member in value.items():
            shown = name[:_SHOWN]
            yield from _faults(member, f"{key}.{shown}" if key else shown, depth + 1)
    elif isinstance(value, list):
        for number, member in enumerate(value):
            yield from _faults(member, f"{key}[{number}]", depth + 1)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield key, "the number has more than 64 bits"
    elif isinstance(value, float) and not math.isfinite(value):
        yield key, f"is {value}, not a number"
    elif isinstance(value, str) and len(value) > _MAX_TEXT:
        yield key, f"the text has more than {_MAX_TEXT:,} characters"
