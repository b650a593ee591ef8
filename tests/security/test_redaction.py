"""The last belt: whatever is logged or would be printed leaves without keys."""

import base64
import io
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import pytest
from aiohttp import web

from service.keys.api_key import KeyText, install_redaction, mask_credentials, mask_keys
from service.operation import Operation
from tests.security.canary import CanaryKey
from tests.service.conftest import Open
from tests.service.stand_in import StandIn

KEY = KeyText("3pbjukwvd6", "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT").reveal()
CANARY = CanaryKey(KEY)
MASK = f"{KEY[:13]}_***"
ESCAPED = KEY.replace("_", "%5F")
BASIC = base64.b64encode(f"3pbjukwvd6:{KEY[14:]}".encode()).decode()


@contextmanager
def written(*, is_masked: bool) -> Iterator[io.StringIO]:
    """Return what a plain handler of all loggers writes, with the belt or without it; all is undone afterwards."""
    output, root = io.StringIO(), logging.getLogger()
    handler, factory, level = logging.StreamHandler(output), logging.getLogRecordFactory(), root.level
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    if is_masked:
        install_redaction()
    try:
        yield output
    finally:
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
        logging.captureWarnings(capture=False)
        logging.setLogRecordFactory(factory)
        root.setLevel(level)
        root.removeHandler(handler)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (KEY, MASK),
        (f"/v1/listings/{KEY}?x={KEY}", f"/v1/listings/{MASK}?x={MASK}"),
        (KEY[:20], MASK),
        (ESCAPED, f"bk%5F{KEY[3:13]}_***"),
        (KEY.upper(), f"{MASK[:-3].upper()}***"),
        (f"?api-key={KEY}&a=1", f"?api-key={MASK}&a=1"),
        ("?api-key=hunter2&a=1", "?api-key=***&a=1"),
        ("?a=1&API%2Dkey=hunter2", "?a=1&API%2Dkey=***"),
        ("{'x-api-key': 'hunter2', 'a': 1}", "{'x-api-key': '***', 'a': 1}"),
        ('{"x-api-key":"hunter2"}', '{"x-api-key":"***"}'),
        ("((b'X-Api-Key', b'hunter2'),)", "((b'X-Api-Key', b'***'),)"),
        ("x-api-key: hunter2\r\n", "x-api-key: ***\r\n"),
        (f"Authorization: Basic {BASIC}", "Authorization: Basic ***"),
        (f"the header basic  {BASIC}", "the header basic  ***"),
        ("((b'Authorization', b'Basic aHVudGVyMg=='),)", "((b'Authorization', b'Basic ***'),)"),
        ("{'authorization': 'Bearer hunter2', 'a': 1}", "{'authorization': 'Bearer ***', 'a': 1}"),
        ("a basic misconfiguration of authorization", "a basic misconfiguration of authorization"),
        ("bk_ and the api-key header", "bk_ and the api-key header"),
        ("the key bk_3pbjukwvd6 was revoked", "the key bk_3pbjukwvd6 was revoked"),
    ],
)
def test_keys_and_what_was_sent_as_one_are_masked_and_nothing_else(text: str, left: str) -> None:
    assert mask_credentials(text) == left


def test_masking_leaves_json_json() -> None:
    document = {"a": f'"{KEY}"', KEY: [f"\\{KEY}\b{KEY}\u00fc{KEY}\x00"]}
    left = mask_keys(json.dumps(document))
    assert json.loads(left) == {"a": f'"{MASK}"', MASK: [f"\\{MASK}\b{MASK}\u00fc{MASK}\x00"]}


def _fail(text: str) -> None:
    raise RuntimeError(text)


def _crash(log: logging.Logger) -> None:
    try:
        _fail(f"GET /v1/listings?api-key={KEY}")
    except RuntimeError:
        log.exception("request failed")


_LINES: dict[str, Callable[[logging.Logger], None]] = {
    "message": lambda log: log.warning(f"asked {KEY}"),  # noqa: G004 - as a library may
    "arguments": lambda log: log.warning("asked %s of %r", KEY, {"x-api-key": KEY}),
    "named argument": lambda log: log.warning("asked %(key)s", {"key": KEY}),
    "an object": lambda log: log.warning(ValueError(KEY)),
    "a key in two arguments": lambda log: log.warning("%s%s", KEY[:20], KEY[20:]),
    "arguments that do not fit": lambda log: log.warning("asked %d", KEY),
    "a traceback": _crash,
    "debugging": lambda log: log.debug("asked %s", ESCAPED),
    "stack": lambda log: log.info("here", stack_info=True, exc_info=ValueError(KEY)),
}


@pytest.mark.parametrize("kind", _LINES)
@pytest.mark.parametrize(
    "logger", ["service", "aiohttp.server", "asyncio", "elastic_transport.transport", "py.warnings"]
)
def test_no_logger_writes_a_key(kind: str, logger: str, capsys: pytest.CaptureFixture[str]) -> None:
    with written(is_masked=True) as output:
        _LINES[kind](logging.getLogger(logger))
    assert output.getvalue().count("\n") >= 1
    assert CANARY.found_in(output.getvalue() + "".join(capsys.readouterr())) == []


def test_a_record_holds_no_traceback_that_a_handler_could_write_by_itself() -> None:
    handler = _Keeping()
    log = logging.getLogger("service")
    with written(is_masked=True):
        log.addHandler(handler)
        _crash(log)
        log.removeHandler(handler)
    assert [(record.exc_info, record.args) for record in handler.records] == [(None, ())]
    assert "RuntimeError: GET /v1/listings?api-key=" in str(handler.records[0].exc_text)


class _Keeping(logging.Handler):
    """Keeps records as they come."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("kind", ["uncaught", "thread", "finalizer", "warning"])
def test_what_python_would_print_is_logged_and_masked(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = RuntimeError(KEY)
    with written(is_masked=True) as output:
        if kind == "uncaught":
            sys.excepthook(RuntimeError, error, None)
        elif kind == "thread":
            arguments = (RuntimeError, error, None, threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(arguments))
        elif kind == "finalizer":
            sys.unraisablehook(_Unraisable(error))
        else:
            warnings.warn(KEY, ResourceWarning, stacklevel=1)
    assert MASK in output.getvalue()
    assert CANARY.found_in(output.getvalue() + "".join(capsys.readouterr())) == []


class _Unraisable:
    """What Python reports of an error in a finalizer."""

    def __init__(self, error: Exception) -> None:
        self.exc_type: type[BaseException] = type(error)
        self.exc_value: BaseException | None = error
        self.exc_traceback: TracebackType | None = None
        self.err_msg: str | None = None
        self.object: object = None


def test_an_interrupt_is_not_a_crash(capsys: pytest.CaptureFixture[str]) -> None:
    with written(is_masked=True) as output:
        sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert output.getvalue() == ""
    assert "KeyboardInterrupt" in capsys.readouterr().err


@pytest.mark.parametrize("is_masked", [False, True])
async def test_without_the_belt_a_crash_with_the_url_in_its_text_would_leak(
    open_api: Open, stand_in: StandIn, monkeypatch: pytest.MonkeyPatch, is_masked: bool
) -> None:
    async def crash(_: Operation, __: Any, request: web.Request) -> web.Response:
        raise RuntimeError(f"cannot answer {request.url}")

    monkeypatch.setattr(Operation, "respond", crash)
    canary = CanaryKey(stand_in.grant())
    with written(is_masked=is_masked) as output:
        api = await open_api()
        answer = await api.get("/v1/companies", params={"api-key": canary.key})
        assert answer.status == 500
    assert canary.found_in(await answer.text()) == []
    assert re.search("request [0-9a-f]{16} failed", output.getvalue())
    assert bool(canary.found_in(output.getvalue())) is not is_masked
