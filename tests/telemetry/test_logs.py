"""The form of log lines: one JSON object each, or text for people."""

import datetime as dt
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from service.settings import LogFormat
from service.telemetry.logs import ConsoleLogFormatter, JsonLogFormatter, configure_logging
from service.telemetry.observation import CURRENT_OBSERVATION, RequestObservation
from tests.internals import metric


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, whose set-up is undone."""
    root, ours = logging.getLogger(), logging.getLogger("service")
    kept = root.handlers[:], root.level, ours.level
    root.handlers.clear()
    yield root
    root.handlers[:], root.level, ours.level = kept


def lines(text: str) -> list[dict[str, Any]]:
    """Return the objects of a text that holds one in each line."""
    return [orjson.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("root")
def test_every_logger_writes_an_object_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    emit = configure_logging(LogFormat.AUTO)
    logging.getLogger("service").info("workers: %d", 2)
    logging.getLogger("elastic_transport.transport").info("one request, %s", "which is not worth a line")
    logging.getLogger("asyncio").warning("slow\nin two lines")
    emit("GET /v1 200", {"rows": 3})
    logged = lines(capfd.readouterr().err)
    assert [{name: value for name, value in line.items() if name != "time"} for line in logged] == [
        {"level": "info", "logger": "service", "process": os.getpid(), "message": "workers: 2"},
        {"level": "warning", "logger": "asyncio", "process": os.getpid(), "message": "slow\nin two lines"},
        {
            "level": "info",
            "logger": "service.access",
            "process": os.getpid(),
            "message": "GET /v1 200",
            "rows": 3,
        },
    ]
    assert all(dt.datetime.fromisoformat(line["time"]).tzinfo is dt.UTC for line in logged)


def record(message: str) -> logging.LogRecord:
    """Return a record of `service`."""
    return logging.LogRecord("service", logging.ERROR, __file__, 1, message, (), None)


def test_an_error_is_a_member_and_invalid_characters_are_escaped() -> None:
    failed = record("at \udcff")
    failed.exc_info = (ValueError, ValueError("no \udc80"), None)
    (line,) = lines(JsonLogFormatter().format(failed))
    assert line["message"] == "at \\udcff"
    assert line["error"] == "ValueError: no \\udc80"


def test_a_line_names_the_request_that_is_worked_on() -> None:
    token = CURRENT_OBSERVATION.set(RequestObservation("0123456789abcdef"))
    try:
        assert orjson.loads(JsonLogFormatter().format(record("x")))["request_id"] == "0123456789abcdef"
    finally:
        CURRENT_OBSERVATION.reset(token)
    assert "request_id" not in orjson.loads(JsonLogFormatter().format(record("x")))


@pytest.mark.usefixtures("root")
def test_people_get_text(capfd: pytest.CaptureFixture[str]) -> None:
    emit = configure_logging(LogFormat.CONSOLE)
    logging.getLogger("service").warning("gone")
    emit("GET /v1 200", {"rows": 3, "milliseconds": 1.5})
    first, second = capfd.readouterr().err.splitlines()
    assert first[8:] == " warning  gone"
    assert second[8:] == " info     GET /v1 200 rows=3 milliseconds=1.5"


def test_a_traceback_for_people_follows_its_line() -> None:
    failed = record("gone")
    failed.exc_text = "Traceback\nhere"
    assert ConsoleLogFormatter().format(failed)[8:] == " error    gone\nTraceback\nhere"


@pytest.mark.parametrize(
    ("is_terminal", "expected"), [(True, ConsoleLogFormatter), (False, JsonLogFormatter)], ids=["terminal", "pipe"]
)
def test_by_itself_the_form_is_for_who_reads(
    root: logging.Logger, monkeypatch: pytest.MonkeyPatch, is_terminal: bool, expected: type[logging.Formatter]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    configure_logging(LogFormat.AUTO)
    assert [type(handler.formatter) for handler in root.handlers] == [expected]


@pytest.mark.usefixtures("root")
def test_who_reads_too_slowly_gets_no_line_and_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    emit, dropped = configure_logging(LogFormat.JSON), metric("brokerage_access_lines_dropped_total")
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w") as slow:
        monkeypatch.setattr(sys, "stderr", slow)
        # More than any pipe holds by default.
        for number in range(2_000):
            emit("GET /v1/listings 200", {"number": number})
        slow.close()
        logged = lines(reader.read().decode())
    assert [line["number"] for line in logged] == list(range(len(logged)))
    assert 0 < len(logged) < 2_000
    assert metric("brokerage_access_lines_dropped_total") - dropped == 2_000 - len(logged)


@pytest.mark.usefixtures("root")
def test_who_reads_no_more_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        emit = configure_logging(LogFormat.JSON)
        monkeypatch.setattr(sys, "stderr", broken)
        emit("GET /v1 200", {})
