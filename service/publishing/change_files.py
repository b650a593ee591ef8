"""The changes from the token of the previous publication to that of the next one, as files.

They have what `/changes` sends to a key without restrictions. A consumer whose token lies between both may apply all of
them: what it has applied already comes in the same state again.
"""

import asyncio
from dataclasses import replace

from cluster.control_index import Mark
from mappings.resource import Resource
from service.exports.manifest import PublishedFile
from service.exports.publication_chain import token_position
from service.feed.changes_page import PageRequest, read_changes_page
from service.feed.token_expired import FeedTokenExpired
from service.feed.view import FeedView
from service.parameters.groups import MAX_PAGE_SIZE
from service.publishing.publication_files import PublicationFiles


async def write_changes(request: PageRequest, files: PublicationFiles, most: int) -> tuple[PublishedFile, ...] | None:
    """Write the changes of one resource from its position up to its mark.

    Return None if they cannot continue from the position, or take more than `most` bytes: nothing of them stays.
    """
    (resource,) = request.positions
    try:
        while request.has_news and files.size <= most:
            page = await read_changes_page(request)
            if page.entries:
                await asyncio.to_thread(files.add, b"".join(entry + b"\n" for entry in page.entries))
            request = replace(request, positions={resource: page.positions[resource]})
    except FeedTokenExpired:
        most = -1
    if files.size > most:
        await asyncio.to_thread(files.discard)
        return None
    return await asyncio.to_thread(files.finish)


async def changes_since(view: FeedView, resource: Resource, sealed: str, mark: Mark) -> PageRequest | None:
    """Return the request for the changes since a token of a publication, None if they cannot continue from it."""
    position = await token_position(view, resource, sealed)
    if position is None or position.is_expired(mark):
        return None
    return PageRequest(view, {resource: position}, {resource: mark}, MAX_PAGE_SIZE)
