"""A compressed body is reused until a byte of it changes or it is evicted."""

import asyncio

import pytest

from service.http import responses as module
from service.http.requests import ContentCoding
from service.http.responses import (
    MAX_CACHE_BYTES,
    MIN_CACHED_BYTES,
    THREAD_THRESHOLD_BYTES,
    BodyBuffers,
    Buffer,
    CompressionCache,
    compress,
    compress_async,
)
from tests.service.http.test_content_coding import PACKED, unpacked

PAGE = b"".join(b'{"ListingID":"%d"},' % number for number in range(MIN_CACHED_BYTES // 16))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[ContentCoding]:
    """The coding of each large body that is actually compressed."""
    done: list[ContentCoding] = []

    async def noted(body: BodyBuffers, coding: ContentCoding) -> bytes:
        done.append(coding)
        return await compress_async(body, coding)

    monkeypatch.setattr(module, "compress_async", noted)
    return done


@pytest.mark.parametrize("coding", PACKED)
async def test_the_same_body_is_compressed_once(work: list[ContentCoding], coding: ContentCoding) -> None:
    packer = CompressionCache()
    pieces: list[Buffer] = [PAGE[:9], memoryview(PAGE)[9:70_000], bytearray(PAGE[70_000:])]
    bodies: list[BodyBuffers] = [PAGE, pieces, bytearray(PAGE)]
    packed = [await packer.compress(body, coding) for body in bodies]
    assert [unpacked(body, coding) for body in packed] == [PAGE] * 3
    assert work == [coding]
    assert packer.cached_bytes == len(packed[0])


async def test_each_coding_is_compressed_separately(work: list[ContentCoding]) -> None:
    packer = CompressionCache()
    for coding in (*PACKED, *PACKED):
        assert unpacked(await packer.compress(PAGE, coding), coding) == PAGE
    assert work == PACKED


@pytest.mark.parametrize("at", [0, len(PAGE) // 2, len(PAGE) - 1])
async def test_any_changed_byte_makes_another_body(work: list[ContentCoding], at: int) -> None:
    packer = CompressionCache()
    changed = PAGE[:at] + b"\x00" + PAGE[at + 1 :]
    assert unpacked(await packer.compress(PAGE, ContentCoding.GZIP), ContentCoding.GZIP) == PAGE
    assert unpacked(await packer.compress(changed, ContentCoding.GZIP), ContentCoding.GZIP) == changed
    assert len(work) == 2


async def test_the_limit_is_kept_and_the_latest_stay(work: list[ContentCoding]) -> None:
    bodies = [b"%d" % number + PAGE for number in range(4)]
    one = max(len(compress(body, ContentCoding.GZIP)) for body in bodies)
    packer = CompressionCache(max_bytes=2 * one)
    for number in (0, 1, 0, 2, 0, 1, 3):
        await packer.compress(bodies[number], ContentCoding.GZIP)
        assert packer.cached_bytes <= 2 * one
    # 0 was requested again each time before it was the oldest; 1 was evicted for 2.
    assert len(work) == len([0, 1, 2, 1, 3])


async def test_a_body_larger_than_the_cache_is_compressed_but_not_stored() -> None:
    packer = CompressionCache(max_bytes=100)
    assert unpacked(await packer.compress(PAGE, ContentCoding.ZSTD), ContentCoding.ZSTD) == PAGE
    assert packer.cached_bytes == 0


async def test_small_bodies_are_not_cached() -> None:
    packer = CompressionCache()
    for length in (MIN_CACHED_BYTES - 1, MIN_CACHED_BYTES):
        assert packer.cached_bytes == 0
        await packer.compress(bytes(length), ContentCoding.GZIP)
    assert 0 < packer.cached_bytes < MAX_CACHE_BYTES


async def test_bodies_compressed_concurrently_are_counted_once(work: list[ContentCoding]) -> None:
    packer, large = CompressionCache(), PAGE * (THREAD_THRESHOLD_BYTES // len(PAGE) + 1)
    packed = await asyncio.gather(*(packer.compress(large, ContentCoding.GZIP) for _ in range(3)))
    assert {unpacked(body, ContentCoding.GZIP) for body in packed} == {large}
    assert len(work) == 3
    assert packer.cached_bytes == len(packed[0])
