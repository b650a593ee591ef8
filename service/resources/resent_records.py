"""Records that readers by time would miss after a restore: what it undid has old times (decision 18)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.resources.response import UPDATED_SINCE

if TYPE_CHECKING:
    from mappings.resource import Resource
    from service.operation import RequestContext


_SECOND = 1_000  # milliseconds


async def resend_after_restore(call: RequestContext, resource: Resource) -> RequestContext:
    """Return the request with an `updated_since` of 0 if the one sent is from before the present life of the data.

    A window that the service chose, because none was sent, is not changed.
    """
    if not (since := call.parameters.get(UPDATED_SINCE)):
        return call
    mark = await call.services.marks[resource].get()
    if mark is None or since * _SECOND >= mark.resend_before:
        return call
    return replace(call, parameters={**call.parameters, UPDATED_SINCE: 0})
