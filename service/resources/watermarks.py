"""Watermarks of readers by time that a restore or a repair of the clock has voided (decisions 18 and 20)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.resources.response import UPDATED_SINCE

if TYPE_CHECKING:
    from mappings.resource import Resource
    from service.operation import RequestContext

_SECOND = 1_000  # milliseconds


async def with_true_watermark(call: RequestContext, resource: Resource) -> RequestContext:
    """Return the request with the `updated_since` from which its sender must continue to miss nothing.

    A window that the service chose, because none was sent, is not changed.
    """
    if not (since := call.parameters.get(UPDATED_SINCE)):
        return call
    mark = await call.services.marks[resource].get()
    if mark is None or (clock := mark.clock_to_resume(since * _SECOND)) == since * _SECOND:
        return call
    return replace(call, parameters={**call.parameters, UPDATED_SINCE: clock // _SECOND})
