"""The emergency list of revoked keys: a file on this host, for when Elasticsearch cannot be written or reached.

One key id per line; text after `#` is ignored. A complete key counts as its id. Lines that are neither are logged by
number and do not affect the others.
"""

import asyncio
import logging
import re
from pathlib import Path

from cluster.settings import SettingError

REVOCATION_LIST_SETTING = "BROKERAGE_REVOCATION_LIST"
# A complete key is accepted, because in an emergency it may be all that is at hand.
_LINE = re.compile(r"(?:bk_)?(?P<key_id>[a-z0-9]{10})(?:_[A-Za-z0-9]*)?", re.ASCII)
_MAX_BYTES = 1_048_576
# Lower limit, however small BROKERAGE_FRESH_SECONDS is.
_MIN_INTERVAL_SECONDS = 0.25

_log = logging.getLogger("service")


class RevocationList:
    """The ids in the file as last read. A missing file is an empty list."""

    def __init__(self, path: str, every_seconds: float) -> None:
        """Read the file at `path` every `every_seconds`; without a path the list stays empty."""
        self._path = Path(path) if path else None
        self._every_seconds = max(every_seconds, _MIN_INTERVAL_SECONDS)
        self._content: bytes | None = b""
        self.key_ids: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Read the file periodically, forever."""
        while self._path is not None:
            await asyncio.sleep(self._every_seconds)
            await self.read()

    async def read(self) -> None:
        """Read the file now; keep the last list and log why if that fails."""
        if self._path is None:
            return
        try:
            # The file may be on a network file system that does not respond.
            content = await asyncio.to_thread(_read, self._path)
        except (OSError, ValueError) as error:
            self._report_failure(error)
            return
        if content != self._content:
            self._content = content
            self._use(content)

    def _use(self, content: bytes) -> None:
        key_ids, bad_lines = parse_revocation_list(content)
        self.key_ids = frozenset(key_ids)
        _log.warning("%s revokes %d keys.", REVOCATION_LIST_SETTING, len(key_ids))
        if bad_lines:
            _log.error("%s: these lines are not key ids: %s.", REVOCATION_LIST_SETTING, _numbers(bad_lines))

    def _report_failure(self, error: Exception) -> None:
        if self._content is not None:
            _log.error("%s cannot be read, so its last content stays valid: %s.", REVOCATION_LIST_SETTING, error)
        self._content = None


def parse_revocation_list(content: bytes) -> tuple[set[str], list[int]]:
    """Return the key ids, and the numbers of the lines that are neither an id nor empty."""
    key_ids, bad_lines = set[str](), list[int]()
    for number, line in enumerate(content.decode("utf-8-sig", errors="replace").splitlines(), 1):
        text = line.partition("#")[0].strip()
        if match := _LINE.fullmatch(text):
            key_ids.add(match["key_id"])
        elif text:
            bad_lines.append(number)
    return key_ids, bad_lines


def require_revocation_list(path: str) -> None:
    """Raise SettingError if the file exists and cannot be read, or if its folder does not exist."""
    if not path:
        return
    try:
        _read(Path(path))
    except (OSError, ValueError) as error:
        raise SettingError(f"{REVOCATION_LIST_SETTING} names a file that cannot be read: {error}.") from error
    if not Path(path).absolute().parent.is_dir():
        raise SettingError(f"{REVOCATION_LIST_SETTING}={path!r} is in a folder that does not exist.")


def _read(path: Path) -> bytes:
    """Return the content, empty for a missing file; raise OSError, and ValueError if it is too large."""
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return b""
    if len(content) > _MAX_BYTES:
        raise ValueError(f"{path} is larger than {_MAX_BYTES:,} bytes")
    return content


def _numbers(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:10]))
    return shown if len(lines) <= 10 else f"{shown} and {len(lines) - 10} more"
