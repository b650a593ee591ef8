"""Bodies of a source, bounded in bytes: a small compressed response can be huge when it is decompressed."""

import aiohttp

from indexer.errors import SourceError

_MIB = 1024**2
# Of an error or a token: only a sentence or a token is read.
MAX_SMALL_BODY_BYTES = 256 * 1024


async def read_body(response: aiohttp.ClientResponse, limit_mib: int) -> bytes:
    """Return a decompressed body of at most `limit_mib` MiB; raise SourceError for a longer one."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > limit_mib * _MIB:
            raise SourceError(
                f"{response.url.path} sent more than {limit_mib} MiB in one response. If the source needs such pages, "
                "raise BROKERAGE_RESO_MAX_BODY_MIB, or lower BROKERAGE_RESO_PAGE_SIZE."
            )
    return bytes(body)


async def read_small_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the first `MAX_SMALL_BODY_BYTES` of a body."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) >= MAX_SMALL_BODY_BYTES:
            # The rest is not read: closing the connection costs less.
            response.close()
            break
    return bytes(body[:MAX_SMALL_BODY_BYTES])
