"""Watermarks of readers by time that a restore or a repair of the clock has voided (decisions 18, 20 and 25)."""

import time
from dataclasses import replace

from cluster.control_index import Mark
from mappings.resource import Resource
from service.request_context import RequestContext
from service.resources.response import UPDATED_SINCE

_SECOND = 1_000  # milliseconds
_AHEAD = 3_600_000  # milliseconds; the clocks of hosts that work together differ by less


async def with_true_watermark(call: RequestContext, resource: Resource) -> RequestContext:
    """Return the request with the `updated_since` from which its sender must continue to miss nothing.

    A window that the service chose, because none was sent, is not changed.
    """
    if not (since := call.parameters.get(UPDATED_SINCE)):
        return call
    mark = await call.services.marks[resource].get()
    if mark is None or (clock := _clock_to_resume(mark, since * _SECOND)) == since * _SECOND:
        return call
    return replace(call, parameters={**call.parameters, UPDATED_SINCE: clock // _SECOND})


def _clock_to_resume(mark: Mark, given: int) -> int:
    """Return the clock from which a reader must continue; all are in milliseconds since 1970.

    After a restore, a time far ahead of all that was published is a watermark of what was undone, under a wrong clock.
    """
    clock = mark.clock_to_resume(given)
    latest = max(mark.clock, int(time.time()) * _SECOND + _AHEAD)
    return 0 if mark.resend_before and clock > latest else clock
