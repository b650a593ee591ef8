"""Elasticsearch's security before a real node, which has none here: who asks, and what he may do, are scripted."""

from __future__ import annotations

import http.client
import http.server
import json
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.brokerage.rights import privileges

if TYPE_CHECKING:
    from collections.abc import Iterator

_AUTHENTICATE, _PRIVILEGES = "/_security/_authenticate", "/_security/user/_has_privileges"


class _Front(http.server.BaseHTTPRequestHandler):
    """Answers for security, and passes everything else on."""

    protocol_version = "HTTP/1.1"
    node = ""
    prefix = ""
    role: dict[str, Any] | None = None  # None: every credential is refused

    def do_GET(self) -> None:
        """Answer any request."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.role is None:
            self._answer(401, {"error": {"type": "security_exception", "reason": "unable to authenticate"}})
        elif self.path == _AUTHENTICATE:
            self._answer(200, {"username": "reader", "roles": ["brokerage"], "authentication_type": "realm"})
        elif self.path == _PRIVILEGES:
            self._answer(200, privileges(self.role, json.loads(body), self.prefix))
        else:
            self._pass_on(body)

    do_POST = do_HEAD = do_GET  # noqa: N815 - the server's names

    def _pass_on(self, body: bytes) -> None:
        node = http.client.HTTPConnection(urlsplit(self.node).netloc)
        wanted = {name: value for name, value in self.headers.items() if name in {"accept", "content-type"}}
        node.request(self.command, self.path, body, wanted)
        answer = node.getresponse()
        self._send(answer.status, answer.headers.get_content_type(), answer.read())
        node.close()

    def _answer(self, status: int, told: object) -> None:
        self._send(status, self.headers.get("accept", "application/json").partition(",")[0], json.dumps(told).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in (("X-Elastic-Product", "Elasticsearch"), ("content-type", kind)):
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the server's name
        """Say nothing."""


@contextmanager
def secured(node: str, prefix: str, role: dict[str, Any] | None) -> Iterator[str]:
    """Stand before a node as security that grants a role, names behind a prefix; yield the address."""
    front = type("Front", (_Front,), {"node": node, "prefix": prefix, "role": role})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), front) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
