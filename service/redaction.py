"""Keeps API keys out of whatever this process writes: the last belt, behind code that writes none.

Records are masked as they are made, which holds for every logger and every handler, whoever set them up. What Python
would write to standard error by itself (uncaught exceptions, those of threads and of finalizers, warnings) becomes a
record too. What is not seen: members that a caller adds to a record with `extra`, and plain `print`.
"""

from __future__ import annotations

import logging
import re
import sys
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

# The form of `service.keys.text`, cut off or percent-encoded too. The id is public and says whose key it was.
_KEY = re.compile(r"(bk(?:_|%5F)[a-z0-9]{10})(?:_|%5F)[A-Za-z0-9%]+", re.ASCII | re.IGNORECASE)
# Whatever was sent as a key, as it stands in a query, a header, or the representation of a dict or of a pair.
_SENT = re.compile(
    r"""(api(?:-|%2D)key['"]?\s*[=:,]\s*(?:b?['"])?)(?!bk_\w{10}_\*)[^\s&'"<>,;)]+""", re.ASCII | re.IGNORECASE
)

_log = logging.getLogger("service")


def masked_keys(text: str) -> str:
    """Return a text in which nothing of a key's form is left but its public id: `bk_<id>_***`.

    It stays JSON if it was: neither the mask nor what it replaces holds a quote or a backslash.
    """
    # The search for the form costs several times the look for its beginning, which every page with a link pays.
    return _KEY.sub(r"\1_***", text) if "bk" in text.lower() else text


def masked(text: str) -> str:
    """Return a text without keys and without whatever was sent as one."""
    return _SENT.sub(r"\1***", masked_keys(text))


class _MaskedRecord(logging.LogRecord):
    """A record whose text is final: message, traceback and stack are formatted here, once, and masked."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.msg, self.args = masked(self._text()), ()
        if self.exc_info:
            self.exc_text = masked(logging.Formatter().formatException(self.exc_info))
            # A handler that formats it by itself, or reports its variables, would write them as they are.
            self.exc_info = None
        if self.stack_info:
            self.stack_info = masked(self.stack_info)

    def _text(self) -> str:
        try:
            return self.getMessage()
        except Exception:
            # Logging would print the arguments, as they are, to standard error.
            return f"{self.msg} {self.args!r}"


def redact() -> None:
    """Mask whatever this process logs from now on, and let it log what it would print."""
    logging.setLogRecordFactory(_MaskedRecord)
    logging.captureWarnings(capture=True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda ended: _ended(f"A thread ended: {ended.thread}", ended.exc_type, ended)
    sys.unraisablehook = lambda ignored: _ended(ignored.err_msg or "Exception ignored", ignored.exc_type, ignored)


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, Exception):
        _log.critical("The process ends by an error that nothing expected.", exc_info=(kind, error, trace))
    else:
        sys.__excepthook__(kind, error, trace)


def _ended(sentence: str, kind: type[BaseException], about: Any) -> None:
    error = about.exc_value or kind()
    _log.error("%s", sentence, exc_info=(kind, error, about.exc_traceback))
