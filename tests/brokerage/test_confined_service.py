"""The service without the right to write a file or to gain privileges, as its image runs."""

import os
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.brokerage.conftest import COMMAND
from tests.brokerage.test_serve import _answer, _wait_for

_NO_CAPABILITIES = "CapInh:\t0000000000000000"


@pytest.mark.parametrize("workers", [1, 2])
def test_the_service_writes_no_file_and_needs_no_privileges(on_engine: dict[str, str], workers: int) -> None:
    confine = [str(shutil.which("setpriv")), "--no-new-privs", "--inh-caps=-all"]
    service = subprocess.Popen(  # noqa: S603 - our own command
        [*confine, COMMAND, "serve", "--port", "0", "--workers", str(workers)],
        env={**os.environ, **on_engine, "BROKERAGE_DRAIN_SECONDS": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),  # noqa: PLW1509 - it starts no thread
    )
    try:
        port = _port(service)
        status = Path(f"/proc/{service.pid}/status").read_text(encoding="utf-8")
        assert "NoNewPrivs:\t1" in status
        assert _NO_CAPABILITIES in status
        assert _answer(port, "/livez")[0] == 200
        assert _answer(port, "/v1/companies")[0] == 401
    finally:
        service.send_signal(signal.SIGTERM)
        output, _ = service.communicate(timeout=60)
    assert service.returncode == 0, output
    assert "Traceback" not in output


def _port(service: subprocess.Popen[str]) -> int:
    """Return the port that it says it has chosen, once it is answered there."""
    assert service.stdout is not None
    for line in service.stdout:
        if (found := re.search(r"http://127\.0\.0\.1:(\d+)/v1", line)) is not None:
            _wait_for(int(found[1]))
            return int(found[1])
    pytest.fail("the service ended before it listened")
