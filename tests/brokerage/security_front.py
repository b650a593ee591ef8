"""Elasticsearch's security before a real node, which has none here: users and their privileges are scripted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson

from tests.brokerage.documented_privileges import privileges
from tests.network.bulk_proxy import RequestProxy
from tests.network.http import Reply, Request
from tests.network.threads import in_thread

_UNKNOWN = {"error": {"type": "security_exception", "reason": "unable to authenticate"}}
_USER = {"username": "reader", "roles": ["brokerage"], "authentication_type": "realm"}


class _Security(RequestProxy):
    """Answers for security, and forwards everything else; without a role every credential is refused."""

    def __init__(self, target: str, prefix: str, role: dict[str, Any] | None) -> None:
        super().__init__(target)
        self._prefix, self._role = prefix, role

    async def reply(self, request: Request) -> Reply:
        if self._role is None:
            return _json(request, _UNKNOWN, 401)
        if request.path == "/_security/_authenticate":
            return _json(request, _USER)
        if request.path == "/_security/user/_has_privileges":
            return _json(request, privileges(self._role, request.json(), self._prefix))
        return await self.forward(request)


def _json(request: Request, value: object, status: int = 200) -> Reply:
    kind = request.headers.get("accept", "application/json").partition(",")[0]
    product = {"X-Elastic-Product": "Elasticsearch"}
    return Reply(status=status, body=orjson.dumps(value), content_type=kind, headers=product)


@contextmanager
def with_security(node: str, prefix: str, role: dict[str, Any] | None) -> Iterator[str]:
    """Run security that grants a role, names behind a prefix, in front of a node; yield the address."""
    with in_thread(_Security(node, prefix, role).running()) as url:
        yield url
