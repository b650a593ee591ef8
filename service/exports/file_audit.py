"""The audit of a download: a key that is sent bytes of a file counts as having all of its records."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from cluster.zstd import zstd
from service.audit.request_audit import NOT_AUDITED
from service.exports.manifest import identifiers_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mappings.resource import Resource
    from service.exports.export_folder import FoundFile
    from service.request_context import RequestContext

# Noted at once; the event loop does other work in between.
_IDENTIFIERS = 2000


async def record_download(call: RequestContext, resource: Resource, found: FoundFile, sequence: int) -> None:
    """Record the identifiers in a file, if there is an audit; raise FileNotFoundError if they are gone.

    The file is at least as new as `sequence`.
    """
    if call.audit is NOT_AUDITED:
        return
    names = await asyncio.to_thread(_read_identifiers, found)
    mark = await call.services.marks[resource].get()
    call.audit.searches(resource, None if mark is None else msgspec.structs.replace(mark, sequence=sequence))
    for start in range(0, len(names), _IDENTIFIERS):
        call.audit.names(resource, names[start : start + _IDENTIFIERS])
        await asyncio.sleep(0)


def _read_identifiers(found: FoundFile) -> Sequence[str]:
    path = found.path.with_name(identifiers_name(found.path.name))
    return zstd.decompress(path.read_bytes()).decode().splitlines()
