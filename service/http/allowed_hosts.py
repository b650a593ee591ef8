"""Which names a request to the private port may use for this host.

A browser that is tricked by DNS rebinding sends a name of the attacker in `Host`. It cannot send an address, or a name
that operators have allowed.
"""

import ipaddress
import re
from collections.abc import Iterable

from aiohttp import hdrs, web
from aiohttp.typedefs import Handler, Middleware

from cluster.settings import SettingError

ALLOWED_HOSTS_SETTING = "BROKERAGE_METRICS_ALLOWED_HOSTS"

_NAME = re.compile(r"[A-Za-z0-9_.-]+", re.ASCII)
_REFUSED = f"The Host header must be an IP address, localhost, or one of the names in {ALLOWED_HOSTS_SETTING}.\n"


def require_host_names(names: Iterable[str]) -> None:
    """Raise SettingError unless all are names without scheme and port."""
    for name in names:
        if not _NAME.fullmatch(name):
            raise SettingError(
                f"{ALLOWED_HOSTS_SETTING} contains {name!r}: use names like metrics.example, without port."
            )


def allowed_hosts_middleware(names: Iterable[str]) -> Middleware:
    """Return the middleware that refuses requests with other names than addresses, `localhost` and `names`: 403."""
    allowed = frozenset({"localhost", *map(_normalized, names)})

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        sent = request.headers.getall(hdrs.HOST, [])
        if len(sent) != 1 or not _is_allowed(_host_name(sent[0]), allowed):
            return web.Response(status=403, text=_REFUSED)
        return await handler(request)

    return check


def _is_allowed(name: str, allowed: frozenset[str]) -> bool:
    return name in allowed or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _host_name(authority: str) -> str:
    """Return the host of `host:port`, of `[address]:port`, or of a host alone."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return _normalized(authority.rpartition(":")[0] or authority)


def _normalized(name: str) -> str:
    return name.lower().rstrip(".")
