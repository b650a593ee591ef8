"""The form of log lines: JSON for machines, one object a line, or text for people."""

from __future__ import annotations

import datetime as dt
import logging
import os
import select
import sys
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson
from prometheus_client import Counter

from service.telemetry.observation import OBSERVED

if TYPE_CHECKING:
    from service.telemetry.access_log import Emit

DROPPED = Counter("brokerage_access_lines_dropped", "Lines of the access log that whoever reads it had no room for.")

_ACCESS = "service.access"


class Form(StrEnum):
    """How lines are written."""

    AUTO = "auto"  # for people on a terminal, else for machines
    JSON = "json"
    CONSOLE = "console"

    @property
    def is_console(self) -> bool:
        """Whether lines are for people."""
        return self is Form.CONSOLE or (self is Form.AUTO and sys.stderr.isatty())


class JsonLines(logging.Formatter):
    """An object a line: time, level, logger, process, message; `request_id` and `error` where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its end."""
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        fields = _fields(self, record)
        return _line(moment, record.levelname.lower(), record.name, _sound(record.getMessage()), fields).decode()


class Console(logging.Formatter):
    """A line for people: time of day, level, message, fields; a traceback behind it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text."""
        fields = _fields(self, record)
        error = fields.pop("error", "")
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        return _text(moment, record.levelname.lower(), record.getMessage(), fields) + (f"\n{error}" if error else "")


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, Any]:
    seen = OBSERVED.get(None)
    fields = {"request_id": seen.request_id} if seen is not None else {}
    trace = record.exc_text or (formatter.formatException(record.exc_info) if record.exc_info else "")
    error = "\n".join(filter(None, (trace, record.stack_info)))
    return fields | ({"error": _sound(error)} if error else {})


def _sound(text: str) -> str:
    """Return a text that JSON can hold: names of files may hold what is no character."""
    return text.encode(errors="backslashreplace").decode()


def _line(moment: dt.datetime, level: str, logger: str, message: str, fields: dict[str, Any]) -> bytes:
    line = {"time": moment, "level": level, "logger": logger, "process": os.getpid(), "message": message, **fields}
    return orjson.dumps(line, option=orjson.OPT_UTC_Z)


def _text(moment: dt.datetime, level: str, message: str, fields: dict[str, Any]) -> str:
    told = "".join(f" {name}={value}" for name, value in fields.items())
    return f"{moment.astimezone():%H:%M:%S} {level:8} {message}{told}"


def set_up(form: Form) -> Emit:
    """Have this process write its log to standard error in a form: of the service all, of libraries warnings.

    Return what writes lines of the access log beside it.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(Console() if form.is_console else JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("service").setLevel(logging.INFO)
    return _emit_text if form.is_console else _emit_json


def _emit_json(message: str, fields: dict[str, Any]) -> None:
    _write(_line(dt.datetime.now(dt.UTC), "info", _ACCESS, message, fields) + b"\n")


def _emit_text(message: str, fields: dict[str, Any]) -> None:
    _write(_text(dt.datetime.now(dt.UTC), "info", message, fields).encode() + b"\n")


def _write(line: bytes) -> None:
    """Write a line in one call, so that those of several processes in one pipe stay whole; drop it rather than wait.

    Who reads a pipe slowly, or no more, would hold up all requests.
    """
    with suppress(OSError):
        if _has_room(sys.stderr.fileno()):
            os.write(sys.stderr.fileno(), line)
            return
    DROPPED.inc()


def _has_room(descriptor: int) -> bool:
    """Tell whether a line can be written at once: of a pipe this is said when 4,096 bytes find room."""
    looking = select.poll()
    looking.register(descriptor, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in looking.poll(0))
