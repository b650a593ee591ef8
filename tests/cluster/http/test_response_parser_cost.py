"""What an answer costs on its way in: bytes that are moved, and room that is set aside."""

import sys
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.http.responses import ResponseParser
from tests.cluster.http.http_responses import chunked, split, with_length
from tests.cluster.http.test_response_parser import ROOM, receive

# As Elasticsearch sends a page of 200 listings: in chunks of a quarter of a megabyte.
CHUNK_BYTES = 270_000
PAGE = bytes(range(256)) * (5 * CHUNK_BYTES // 256)


@given(size=st.integers(20_000, 400_000), expected=st.sampled_from([0, 70_000, 1_500_000]))
def test_large_chunks_are_not_moved(size: int, expected: int) -> None:
    framing = ResponseParser(expected)
    pieces = split(PAGE, CHUNK_BYTES)
    assert receive(framing, chunked(pieces), repeat(size)) == 0
    assert framing.copied_bytes <= 64 * len(pieces)
    assert framing.body() == PAGE


def test_large_chunks_are_not_moved_when_the_framing_comes_apart_from_them() -> None:
    framing, pieces = ResponseParser(), split(PAGE, CHUNK_BYTES)
    # Each piece of the framing comes alone, and with the next chunk where there is room for that.
    for sent in [chunked([]).partition(b"0\r\n")[0], *(_apart(pieces)), b"0\r\n\r\n"]:
        assert receive(framing, sent, ()) == 0
    assert framing.copied_bytes <= 64 * len(pieces)
    assert framing.body() == PAGE


def _apart(pieces: list[bytes]) -> list[bytes]:
    """Return what is received in turn when every receiving ends with a chunk, before its line end."""
    return [b"%b%x\r\n%b" % (b"\r\n" if number else b"", len(piece), piece) for number, piece in enumerate(pieces)] + [
        b"\r\n"
    ]


def test_small_chunks_come_out_right_and_each_byte_is_moved_once_at_most() -> None:
    framing = ResponseParser()
    assert receive(framing, chunked(split(PAGE, 8_192)), ()) == 0
    assert framing.copied_bytes < 1.1 * len(PAGE)
    assert framing.body() == PAGE


@pytest.mark.parametrize("size", [1_000, 16_384, ROOM])
def test_a_body_of_known_length_is_not_moved_at_all(size: int) -> None:
    framing = ResponseParser()
    assert receive(framing, with_length(PAGE), repeat(size)) == 0
    assert framing.copied_bytes == 0
    assert framing.body() == PAGE


@pytest.mark.parametrize("expected", [0, len(PAGE) // 2, len(PAGE), len(PAGE) * 9 // 8])
@pytest.mark.parametrize("sent", [with_length(PAGE), chunked(split(PAGE, CHUNK_BYTES)), chunked(split(PAGE, 8_192))])
def test_the_buffer_stays_in_proportion_to_the_answer(sent: bytes, expected: int) -> None:
    framing = ResponseParser(expected)
    receive(framing, sent, ())
    assert len(framing._buffer) <= 2.2 * len(sent)


def test_the_body_is_the_buffer_it_was_received_in() -> None:
    framing = ResponseParser()
    receive(framing, with_length(PAGE), ())
    assert framing.body() is framing._buffer


@given(size=st.integers(200_000, 2_000_000), expected=st.integers(0, 2_500_000))
def test_a_body_keeps_little_more_memory_than_it_has_bytes(size: int, expected: int) -> None:
    framing = ResponseParser(expected)
    receive(framing, chunked(split(b"x" * size, 50_000)), ())
    assert sys.getsizeof(framing.body()) < 1.5 * size
