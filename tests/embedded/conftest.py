"""Real nodes for the tests: one that many tests read, and what it takes to look at processes and HTTP."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from embedded import EmbeddedCluster, NodeOptions

HEAP_MB = 512


def call(url: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """One request to a node; the parsed answer."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)
    try:
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
    finally:
        connection.close()
    assert answer.status < 300, text
    return json.loads(text)


def eventually(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether it comes true within that time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


@pytest.fixture(scope="session")
def cluster() -> Iterator[EmbeddedCluster]:
    """One node with ephemeral data."""
    with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=HEAP_MB)) as running:
        yield running
