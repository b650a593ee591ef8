"""Log formats: JSON, one object per line, or readable text."""

import datetime as dt
import logging
import os
import select
import sys
from contextlib import suppress
from enum import StrEnum
from typing import Any

import orjson
from prometheus_client import Counter

from cluster.terminal import printable
from service.telemetry.observation import CURRENT_OBSERVATION
from service.telemetry.requests import EmitLine

DROPPED_LINES = Counter(
    "brokerage_access_lines_dropped", "Lines of the access log dropped because the reader was too slow."
)

_ACCESS = "service.access"


class LogFormat(StrEnum):
    """The format of log lines."""

    AUTO = "auto"  # text on a terminal, otherwise JSON
    JSON = "json"
    CONSOLE = "console"

    @property
    def is_console(self) -> bool:
        """Whether lines are readable text."""
        return self is LogFormat.CONSOLE or (self is LogFormat.AUTO and sys.stderr.isatty())


class JsonLogFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, process, message, and if applicable `request_id` and `error`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without a line break."""
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        fields = _fields(self, record)
        line = _line(moment, record.levelname.lower(), record.name, _encodable(record.getMessage()), fields)
        return printable(line.decode())


class ConsoleLogFormatter(logging.Formatter):
    """A readable line: time of day, level, message, fields; followed by the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text without a final line break."""
        fields = _fields(self, record)
        error = fields.pop("error", "")
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        text = _text(moment, record.levelname.lower(), record.getMessage(), fields)
        return printable(f"{text}\n{error}" if error else text)


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    seen = CURRENT_OBSERVATION.get(None)
    fields = {"request_id": seen.request_id} if seen is not None else {}
    trace = record.exc_text or (formatter.formatException(record.exc_info) if record.exc_info else "")
    error = "\n".join(filter(None, (trace, record.stack_info)))
    return fields | ({"error": _encodable(error)} if error else {})


def _encodable(text: str) -> str:
    """Escape surrogates, which file names may contain and JSON cannot."""
    return text.encode(errors="backslashreplace").decode()


def _line(moment: dt.datetime, level: str, logger: str, message: str, fields: dict[str, Any]) -> bytes:
    line = {"time": moment, "level": level, "logger": logger, "process": os.getpid(), "message": message, **fields}
    return orjson.dumps(line, option=orjson.OPT_UTC_Z)


def _text(moment: dt.datetime, level: str, message: str, fields: dict[str, Any]) -> str:
    members = "".join(f" {name}={value}" for name, value in fields.items())
    return f"{moment.astimezone():%H:%M:%S} {level:8} {message}{members}"


def configure_logging(form: LogFormat) -> EmitLine:
    """Log to standard error: all records of the service from INFO on, and warnings of libraries.

    Returns the function that writes lines of the access log.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(ConsoleLogFormatter() if form.is_console else JsonLogFormatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("service").setLevel(logging.INFO)
    return _emit_text if form.is_console else _emit_json


def _emit_json(message: str, fields: dict[str, Any]) -> None:
    _write(_line(dt.datetime.now(dt.UTC), "info", _ACCESS, message, fields) + b"\n")


def _emit_text(message: str, fields: dict[str, Any]) -> None:
    _write(_text(dt.datetime.now(dt.UTC), "info", message, fields).encode() + b"\n")


def _write(line: bytes) -> None:
    """Write a line in one call, so that processes can share a pipe; drop it if the pipe is full.

    A blocked write would stall all requests.
    """
    with suppress(OSError):
        if _has_room(sys.stderr.fileno()):
            os.write(sys.stderr.fileno(), line)
            return
    DROPPED_LINES.inc()


def _has_room(descriptor: int) -> bool:
    """Return whether a line can be written without blocking; for a pipe, whether 4,096 bytes fit."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))
