"""Bodies of responses: bounded in bytes, line length, nesting and time, whatever the service sends."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

import aiohttp
import msgspec

from brokerage_feed.errors import ResponseTooLarge

Message = TypeVar("Message")

_MIB = 1024**2
# Decompressed; a bomb costs as much memory. A page has 1,000 records at most, a bucket of a digest some 15 of a
# million.
MAX_BODY_BYTES = 128 * _MIB
# A line of a snapshot is one record.
MAX_LINE_BYTES = 16 * _MIB
# Of an error: only a problem document is read, which is shorter.
MAX_ERROR_BYTES = 64 * 1024
# The longest that one body, or one line of a snapshot, may take to arrive.
MAX_BODY_SECONDS = 600.0


class MalformedResponse(Exception):
    """A response is not what the API describes."""


def decode_message(body: bytes, decoder: msgspec.json.Decoder[Message], path: str) -> Message:
    """Return the message in a body; raise MalformedResponse, which names the path, the member and the fault."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise MalformedResponse(f"{path} sent a response that is not valid: {error}") from None
    except RecursionError:
        raise MalformedResponse(f"{path} sent a response that is nested too deeply") from None


async def read_body(response: aiohttp.ClientResponse) -> bytes:
    """Return a body; raise ResponseTooLarge, or TimeoutError."""
    body = bytearray()
    async with asyncio.timeout(MAX_BODY_SECONDS):
        async for chunk in response.content.iter_any():
            body += chunk
            _require_at_most(len(body), MAX_BODY_BYTES, response.url.path, "a response")
    return bytes(body)


async def read_error_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the first bytes of the body of an error."""
    body = bytearray()
    async with asyncio.timeout(MAX_BODY_SECONDS):
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) >= MAX_ERROR_BYTES:
                # The rest is not read: closing the connection costs less.
                response.close()
                break
    return bytes(body[:MAX_ERROR_BYTES])


async def iterate_lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of a streamed response. A last line without a line break is truncated: skip it.

    Raise ResponseTooLarge, or TimeoutError if a line takes too long.
    """
    clock, rest, length = asyncio.get_running_loop().time, list[bytes](), 0
    began = clock()
    async for chunk in response.content.iter_any():
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = b"".join([*rest, lines[0]])
            _require_at_most(max(map(len, lines)), MAX_LINE_BYTES, response.url.path, "a line")
            for line in lines:
                yield line
            rest, length, began = [], 0, clock()
        rest.append(last)
        length += len(last)
        _require_at_most(length, MAX_LINE_BYTES, response.url.path, "a line")
        if clock() - began > MAX_BODY_SECONDS:
            raise TimeoutError(f"a line of {response.url.path} did not arrive within {MAX_BODY_SECONDS:.0f} s")


def _require_at_most(size: int, limit: int, path: str, what: str) -> None:
    if size > limit:
        raise ResponseTooLarge(
            f"{path} sent {what} of more than {limit // _MIB} MiB, the limit of this program. Is this the service?"
        )
