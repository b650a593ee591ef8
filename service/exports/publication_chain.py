"""The files of changes that lead from a consumer's token to the latest publication."""

from mappings.resource import Resource
from service.errors import InvalidRequest
from service.exports.manifest import Manifest, PublishedFile
from service.exports.publications import Publications
from service.feed import token
from service.feed.token import FeedPosition
from service.feed.token_expired import FeedTokenExpired
from service.feed.view import FeedView


async def chained_files(
    publications: Publications, view: FeedView, resource: Resource, latest: Manifest, consumer: FeedPosition
) -> list[PublishedFile] | None:
    """Return the files to apply in order, None if there are none that begin at or before the consumer's position.

    A file may begin before it: changes that the consumer has applied come again in the same state.
    """
    files: list[PublishedFile] = []
    manifest: Manifest | None = latest
    end = await token_position(view, resource, latest.token)
    if end is None or not _reaches(consumer, end):
        return None
    while manifest is not None and manifest.since is not None and manifest.changes is not None:
        files[:0] = manifest.changes
        start = await token_position(view, resource, manifest.since)
        if start is None or _data(start) != _data(consumer):
            return None
        if start.sequence <= consumer.sequence:
            return files
        manifest = await publications.earlier(manifest)
    return None


def _reaches(consumer: FeedPosition, end: FeedPosition) -> bool:
    """Whether a publication is newer than a consumer of the same data."""
    return _data(consumer) == _data(end) and consumer.sequence < end.sequence


def _data(position: FeedPosition) -> tuple[int, str]:
    return position.epoch, position.life


async def token_position(view: FeedView, resource: Resource, sealed: str) -> FeedPosition | None:
    """Return the position of a publication's token, None if it is of another version or can no longer be opened."""
    try:
        opened = await view.call.services.tokens.open(sealed, "token")
        tokens = token.decode_tokens([opened], "token")
    except (FeedTokenExpired, InvalidRequest):
        return None
    # Of another version, whose content hashes cover other members.
    return tokens.positions[resource] if tokens.views == {view.fingerprint} else None
