"""How far a consumer has read with a request, for the console of operators."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from mappings.resource import Resource
from service.request_context import RequestContext
from service.scope import COMPANY_PARAMETER, PARENT_PARAMETER
from service.telemetry.observation import CURRENT_OBSERVATION, FeedPage

# How `brokerage-feed pull`, and programs with its library, name themselves.
_CLIENT = "brokerage-feed/"


class ReadSpan(NamedTuple):
    """What was read, from the cursor `after` to `last`.

    Who reads to the end has everything up to the `watermark` that came with the first page, in seconds since 1970.
    """

    after: str | None
    last: str | None
    watermark: int | None = None
    is_final: bool = True


def observe(call: RequestContext, method: str, resources: Iterable[Resource], span: ReadSpan) -> None:
    sent = call.parameters
    is_pull = call.client.headers.get("User-Agent", "").startswith(_CLIENT)
    CURRENT_OBSERVATION.get().page = FeedPage(
        method=f"pull: {method}" if is_pull else method,
        resource=", ".join(resource.alias for resource in resources),
        company=sent.get(COMPANY_PARAMETER) or sent.get(PARENT_PARAMETER) or "",
        after=span.after,
        last=span.last,
        updated_since=None,
        is_final=span.is_final,
        watermark=span.watermark,
    )


def latest_watermark(call: RequestContext, resources: Iterable[Resource]) -> int | None:
    """Return the watermark up to which a read that begins now has everything, None before the first load."""
    marks = map(call.mark, resources)
    return max((mark.clock // 1000 for mark in marks if mark is not None), default=None)


def observe_end(last: str | None) -> None:
    """Note that a stream was sent to its end."""
    observation = CURRENT_OBSERVATION.get()
    if observation.page is not None:
        observation.page = msgspec.structs.replace(observation.page, last=last, is_final=True)
