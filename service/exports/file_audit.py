"""The audit of a download: a key that is sent bytes of a file counts as having all of its records."""

import asyncio

import msgspec

from mappings.resource import Resource
from service.audit.request_audit import NOT_AUDITED
from service.exports.publications import FoundFile, Publications
from service.request_context import RequestContext

# Noted at once; the event loop does other work in between.
_IDENTIFIERS = 2000


async def record_download(
    call: RequestContext, resource: Resource, publications: Publications, found: FoundFile, sequence: int
) -> None:
    """Record the identifiers in a file, if there is an audit; raise FileNotFoundError if they are gone.

    The file is at least as new as `sequence`.
    """
    if call.audit is NOT_AUDITED:
        return
    names = await publications.identifiers(found)
    mark = await call.services.marks[resource].get()
    call.audit.searches(resource, None if mark is None else msgspec.structs.replace(mark, sequence=sequence))
    for start in range(0, len(names), _IDENTIFIERS):
        call.audit.names(resource, names[start : start + _IDENTIFIERS])
        await asyncio.sleep(0)
