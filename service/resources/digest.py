"""`/digest/{resource}`: counts and digests by which a consumer proves that its copy is whole (decision 12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import orjson

from service.admission import Kind
from service.errors import ResourceUnavailable
from service.feed import digests, token
from service.feed.token import Place
from service.feed.view import Kept
from service.operation import Call, Operation
from service.parameters.feed import Copied, Prefixes
from service.resources.snapshot import named_resource
from service.responses import json_answer

if TYPE_CHECKING:
    from aiohttp import web

    from cluster.control import Mark
    from mappings.resource import Resource
    from service.feed.digests import Bucket, Found


class DigestParameters(Copied):
    """Parameters of a digest."""

    prefixes = Prefixes(
        "Buckets to look into: hexadecimal prefixes of 2 digits, or of 4, separated by commas. Absent: everything."
    )


class _Answer(msgspec.Struct):
    resource: str
    token: str
    count: int
    digest: str
    unsettled: int
    buckets: list[Bucket]


async def read_digest(call: Call) -> web.Response:
    """Answer counts and digests of records by buckets of their identifiers; prefixes of 4 digits list the records."""
    resource, kept = named_resource(call), Kept(call)
    mark = await call.services.marks[resource].get()
    if mark is None:
        raise ResourceUnavailable(resource.title)
    found = await _found(call, kept, resource, mark)
    text = token.write(kept.fingerprint, {resource: Place.at(mark)})
    total = found.total
    digest = f"{total.total:016x}"
    answer = _Answer(resource.alias, text, total.count, digest, found.unsettled, found.buckets)
    return json_answer([msgspec.json.encode(answer)])


async def _found(call: Call, kept: Kept, resource: Resource, mark: Mark) -> Found:
    prefixes = call.parameters["prefixes"]
    if prefixes and len(prefixes[0]) == digests.DIGITS:
        answer = await call.search(resource, digests.members_body(kept, resource, prefixes, mark))
        return digests.listed(orjson.loads(answer))
    answer = await call.search(resource, digests.buckets_body(kept, resource, prefixes, mark))
    return digests.added_up(orjson.loads(answer), prefixes)


OPERATIONS = (Operation("/digest/{resource}", DigestParameters(), read_digest, kind=Kind.PAGE),)
