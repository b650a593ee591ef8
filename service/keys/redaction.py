"""Redaction of API keys in everything this process logs: a second line of defense, since no code logs keys.

Log records are masked when they are created, whatever their logger and handlers. Output that Python itself writes to
standard error (uncaught exceptions, also of threads and finalizers, and warnings) is logged instead. Not covered:
members that a caller adds to a record with `extra`, and `print`.
"""

import logging
import re
import sys
import threading
from types import TracebackType
from typing import Any

# The form of `service.keys.key_text`, including truncated and percent-encoded keys. The public id is kept.
_KEY = re.compile(r"(bk(?:_|%5F)[a-z0-9]{10})(?:_|%5F)[A-Za-z0-9%]+", re.ASCII | re.IGNORECASE)
# Anything sent as a key, in the form of a query, a header, or the `repr` of a dict or a pair.
_CREDENTIAL = re.compile(
    r"""(api(?:-|%2D)key['"]?\s*[=:,]\s*(?:b?['"])?)(?!bk_\w{10}_\*)[^\s&'"<>,;)]+""", re.ASCII | re.IGNORECASE
)
# Whatever was sent by HTTP Basic or as a bearer token, and what looks like the former: a key has more characters.
_AUTHORIZATION = re.compile(
    r"""(authorization['"]?\s*[=:,]\s*(?:b?['"])?(?:basic|bearer)\s+)[^\s'"<>,;)]+"""
    r"""|(\bbasic(?:\s|%20|\+)+)[A-Za-z0-9+/=%_-]{32,}""",
    re.ASCII | re.IGNORECASE,
)

_log = logging.getLogger("service")


def mask_keys(text: str) -> str:
    """Replace everything that looks like a key with its public id: `bk_<id>_***`.

    JSON stays valid: neither the mask nor the text that it replaces contains a quote or a backslash.
    """
    # The regular expression costs several times this test, which runs on every page with a link.
    return _KEY.sub(r"\1_***", text) if "bk" in text.lower() else text


def mask_credentials(text: str) -> str:
    """Mask keys, and any value that was sent as a key."""
    return _AUTHORIZATION.sub(r"\1\2***", _CREDENTIAL.sub(r"\1***", mask_keys(text)))


class _RedactedLogRecord(logging.LogRecord):
    """A log record whose message, traceback and stack are formatted and masked at creation."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.msg, self.args = mask_credentials(self._text()), ()
        if self.exc_info:
            self.exc_text = mask_credentials(logging.Formatter().formatException(self.exc_info))
            # A handler that formats the exception itself, or reports its variables, would leak them.
            self.exc_info = None
        if self.stack_info:
            self.stack_info = mask_credentials(self.stack_info)

    def _text(self) -> str:
        try:
            return self.getMessage()
        except Exception:
            # `logging` would print the unmasked arguments to standard error.
            return f"{self.msg} {self.args!r}"


def install_redaction() -> None:
    """Mask all further log records, and log what Python would print to standard error."""
    logging.setLogRecordFactory(_RedactedLogRecord)
    logging.captureWarnings(capture=True)
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda args: _log_hook(f"Exception in thread {args.thread}", args.exc_type, args)
    sys.unraisablehook = lambda args: _log_hook(args.err_msg or "Exception ignored", args.exc_type, args)


def _log_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, Exception):
        _log.critical("The process ends because of an unexpected error.", exc_info=(kind, error, trace))
    else:
        sys.__excepthook__(kind, error, trace)


def _log_hook(message: str, kind: type[BaseException], args: Any) -> None:
    error = args.exc_value or kind()
    _log.error("%s", message, exc_info=(kind, error, args.exc_traceback))
