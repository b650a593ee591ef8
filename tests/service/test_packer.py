"""What was packed is not packed again, until a byte of it changes or there is no room for it."""

from __future__ import annotations

import asyncio

import pytest

from service.encoding import packer as module
from service.encoding.compression import IN_THREAD_ABOVE_BYTES, Body, Piece, compress, compressed
from service.encoding.negotiation import Coding
from service.encoding.packer import REMEMBERED_FROM_BYTES, ROOM_BYTES, Packer
from tests.service.test_encoding import PACKED, unpacked

PAGE = b"".join(b'{"ListingID":"%d"},' % number for number in range(REMEMBERED_FROM_BYTES // 16))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[Coding]:
    """The coding of each large body that is really packed."""
    done: list[Coding] = []

    async def noted(body: Body, coding: Coding) -> bytes:
        done.append(coding)
        return await compressed(body, coding)

    monkeypatch.setattr(module, "compressed", noted)
    return done


@pytest.mark.parametrize("coding", PACKED)
async def test_the_same_body_is_packed_once(work: list[Coding], coding: Coding) -> None:
    packer = Packer()
    pieces: list[Piece] = [PAGE[:9], memoryview(PAGE)[9:70_000], bytearray(PAGE[70_000:])]
    bodies: list[Body] = [PAGE, pieces, bytearray(PAGE)]
    packed = [await packer.pack(body, coding) for body in bodies]
    assert [unpacked(body, coding) for body in packed] == [PAGE] * 3
    assert work == [coding]
    assert packer.held == len(packed[0])


async def test_each_coding_is_packed_for_itself(work: list[Coding]) -> None:
    packer = Packer()
    for coding in (*PACKED, *PACKED):
        assert unpacked(await packer.pack(PAGE, coding), coding) == PAGE
    assert work == PACKED


@pytest.mark.parametrize("at", [0, len(PAGE) // 2, len(PAGE) - 1])
async def test_any_changed_byte_makes_another_body(work: list[Coding], at: int) -> None:
    packer = Packer()
    changed = PAGE[:at] + b"\x00" + PAGE[at + 1 :]
    assert unpacked(await packer.pack(PAGE, Coding.GZIP), Coding.GZIP) == PAGE
    assert unpacked(await packer.pack(changed, Coding.GZIP), Coding.GZIP) == changed
    assert len(work) == 2


async def test_the_room_is_kept_and_the_latest_stay(work: list[Coding]) -> None:
    bodies = [b"%d" % number + PAGE for number in range(4)]
    one = max(len(compress(body, Coding.GZIP)) for body in bodies)
    packer = Packer(room=2 * one)
    for number in (0, 1, 0, 2, 0, 1, 3):
        await packer.pack(bodies[number], Coding.GZIP)
        assert packer.held <= 2 * one
    # 0 was asked for again each time before it was the oldest; 1 had to make room for 2.
    assert len(work) == len([0, 1, 2, 1, 3])


async def test_a_body_larger_than_the_room_is_packed_and_forgotten() -> None:
    packer = Packer(room=100)
    assert unpacked(await packer.pack(PAGE, Coding.ZSTD), Coding.ZSTD) == PAGE
    assert packer.held == 0


async def test_small_bodies_are_not_remembered() -> None:
    packer = Packer()
    for length in (REMEMBERED_FROM_BYTES - 1, REMEMBERED_FROM_BYTES):
        assert packer.held == 0
        await packer.pack(bytes(length), Coding.GZIP)
    assert 0 < packer.held < ROOM_BYTES


async def test_bodies_packed_side_by_side_are_counted_once(work: list[Coding]) -> None:
    packer, large = Packer(), PAGE * (IN_THREAD_ABOVE_BYTES // len(PAGE) + 1)
    packed = await asyncio.gather(*(packer.pack(large, Coding.GZIP) for _ in range(3)))
    assert {unpacked(body, Coding.GZIP) for body in packed} == {large}
    assert len(work) == 3
    assert packer.held == len(packed[0])
