"""The OData version of a response: 4.01, or 4.0 for clients that support no later one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web

_HEADER = "OData-Version"
_V4_01, _V4_0 = "4.01", "4.0"


def odata_version_header(request: web.BaseRequest) -> dict[str, str]:
    """Return the `OData-Version` header; bodies are the same in both versions."""
    maximum = request.headers.get("OData-MaxVersion", _V4_01).strip()
    return {_HEADER: _V4_0 if maximum == _V4_0 else _V4_01}
