"""Which version of OData an answer is of: 4.01, or 4.0 for a client that knows no later one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

_HEADER = "OData-Version"
_LATEST, _EARLIER = "4.01", "4.0"


def version(request: web.BaseRequest) -> dict[str, str]:
    """Return the header of every answer. What is answered is the same in both versions."""
    most = request.headers.get("OData-MaxVersion", _LATEST).strip()
    return {_HEADER: _EARLIER if most == _EARLIER else _LATEST}
