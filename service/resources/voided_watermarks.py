"""Watermarks that were published while the indexer's clock was ahead: their holders continue from the true time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.resources.response import UPDATED_SINCE

if TYPE_CHECKING:
    from mappings.resource import Resource
    from service.operation import RequestContext


async def with_true_watermark(call: RequestContext, resource: Resource) -> RequestContext:
    """Return the request with an `updated_since` that a repair of the indexer's clock has voided replaced.

    Otherwise its sender would receive nothing until that time comes.
    """
    second = call.parameters.get(UPDATED_SINCE)
    mark = None if second is None else await call.services.marks[resource].get()
    if second is None or mark is None or (clock := mark.true_clock(second * 1000)) == second * 1000:
        return call
    return replace(call, parameters={**call.parameters, UPDATED_SINCE: clock // 1000})
