"""Answers taken apart where they are received: always the body, in whatever way it comes, and never anything else."""

from collections.abc import Iterable
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.http.responses import HttpProtocolError, ResponseParser
from tests.cluster.http.http_responses import OK, chunked, split, until_close, with_length
from tests.internals import Internals

ROOM = 10**9
BODIES = st.binary(max_size=400) | st.integers(0, 300_000).map(lambda size: bytes(range(251)) * (size // 251))
# How many bytes each receiving brings, as far as there is room and anything left.
RECEIVINGS = st.lists(st.integers(1, 90) | st.integers(1, 200_000), min_size=1, max_size=30)
EXPECTATIONS = st.sampled_from([0, 1, 70_000, 400_000])
PIECES = st.integers(1, 40) | st.integers(1_000, 280_000)
SMALL = b"[%b]" % (b"0123456789" * 20)


def receive(framing: ResponseParser, sent: bytes, counts: Iterable[int]) -> int:
    """Receive what was sent in these numbers of bytes, then in as many as there is room for; return what is left."""
    at, counts = 0, iter(counts)
    while at < len(sent) and not framing.is_done:
        room = framing.get_buffer()
        assert len(room) > 0
        come = sent[at : at + min(len(room), next(counts, ROOM))]
        room[: len(come)] = come
        room.release()
        framing.feed(len(come))
        at += len(come)
    return len(sent) - at


def received(sent: bytes, *counts: int, expected: int = 0) -> bytes:
    framing = ResponseParser(expected)
    assert receive(framing, sent, counts) == 0
    assert framing.is_done
    return bytes(framing.body())


@given(body=BODIES, counts=RECEIVINGS, expected=EXPECTATIONS)
def test_a_body_of_known_length_comes_out_as_it_was_sent(body: bytes, counts: list[int], expected: int) -> None:
    assert received(with_length(body), *counts, expected=expected) == body


@given(
    body=BODIES,
    size=PIECES,
    counts=RECEIVINGS,
    expected=EXPECTATIONS,
    extension=st.sampled_from([b"", b";a=b", b" ; a", b';a="b"']),
    trailer=st.sampled_from([b"", b"a: b\r\n", b"a: b\r\nc: d\r\n"]),
)
def test_a_body_in_chunks_comes_out_in_one_piece(
    body: bytes, size: int, counts: list[int], expected: int, extension: bytes, trailer: bytes
) -> None:
    pieces = split(body, max(size, len(body) // 200))
    sent = chunked(pieces, extension=extension, trailer=trailer)
    assert received(sent, *counts, expected=expected) == body


@given(pieces=st.lists(st.binary(max_size=9), max_size=12), size=st.integers(1, 7))
def test_chunks_come_out_wherever_a_receiving_ends(pieces: list[bytes], size: int) -> None:
    assert received(chunked(pieces), *repeat(size, 1_000)) == b"".join(pieces)


@given(body=BODIES, counts=RECEIVINGS, expected=EXPECTATIONS)
def test_a_body_that_ends_with_the_connection_is_whole_then(body: bytes, counts: list[int], expected: int) -> None:
    framing = ResponseParser(expected)
    assert receive(framing, until_close(body), counts) == 0
    assert not framing.is_done
    framing.feed_eof()
    assert (framing.is_done, framing.keep_alive, bytes(framing.body())) == (True, False, body)


@given(counts=RECEIVINGS, sent=st.sampled_from([with_length(b"")[:-2] + b"X: y\r\n\r\n", chunked([])]))
def test_an_empty_body_is_one_too(counts: list[int], sent: bytes) -> None:
    assert received(sent, *counts) == b""


@pytest.mark.parametrize("head", [with_length(b"x" * 99)[:-99], chunked([])[:-5], until_close(b"")])
def test_an_answer_to_head_has_no_body_whatever_its_head_says(head: bytes) -> None:
    framing = ResponseParser(is_head_request=True)
    assert receive(framing, head, [7, 7]) == 0
    assert (framing.is_done, framing.keep_alive, bytes(framing.body())) == (True, True, b"")


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("header", [b"", b"Content-Length: 99\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_statuses_without_a_body_end_with_the_head(status: int, header: bytes) -> None:
    framing = ResponseParser()
    assert receive(framing, b"HTTP/1.1 %d\r\n%b\r\n" % (status, header), [5]) == 0
    assert (framing.is_done, framing.keep_alive, bytes(framing.body())) == (True, True, b"")


BROKEN = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\n",
    "another version": b"HTTP/2 200\r\n\r\n",
    "a version alone": b"HTTP/1.1\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status too long": b"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n",
    "a status too large": b"HTTP/1.1 600\r\n\r\n",
    "a signed status": b"HTTP/1.1 +20 OK\r\n\r\n",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "early hints": b"HTTP/1.1 103 Early Hints\r\n\r\n",
    "a header without colon": OK + b"Content-Length\r\n\r\n",
    "a header without name": OK + b": 4\r\n\r\n",
    "a space before the colon": OK + b"Content-Length : 4\r\n\r\n",
    "a folded header": OK + b"X: y\r\n Content-Length: 4\r\n\r\n",
    "a length that is none": OK + b"Content-Length: many\r\n\r\n",
    "a negative length": OK + b"Content-Length: -1\r\n\r\n",
    "an empty length": OK + b"Content-Length:\r\n\r\n",
    "a length with an underscore": OK + b"Content-Length: 1_0\r\n\r\n",
    "two lengths": OK + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\n",
    "a length beyond all bounds": OK + b"Content-Length: 99999999999999\r\n\r\n",
    "another coding": OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    "an unended head": OK + b"X: " + b"y" * 140_000,
    "a chunk without length": chunked([]).replace(b"\r\n0", b"\r\n"),
    "a chunk of no number": chunked([]).replace(b"\r\n0", b"\r\nlong"),
    "a chunk of a negative length": chunked([]).replace(b"\r\n0", b"\r\n-1"),
    "a chunk with a prefix": chunked([]).replace(b"\r\n0", b"\r\n0x0"),
    "a chunk beyond all bounds": chunked([]).replace(b"\r\n0", b"\r\n" + b"f" * 20),
    "a chunk longer than said": chunked([SMALL]).replace(b"\r\nca\r\n", b"\r\nc8\r\n"),
    "an endless line": chunked([]).replace(b"\r\n0", b"\r\n0;" + b"y" * 140_000),
    "an endless trailer": chunked([], trailer=b"y" * 140_000),
}


@pytest.mark.parametrize(
    "sent",
    [
        OK + b"Content-Length: 2000000\r\n\r\n",
        OK + b"\r\n" + bytes(2_000_000),
        chunked([bytes(400_000)] * 5),
    ],
    ids=["announced", "until the end of the connection", "in chunks"],
)
def test_a_body_has_a_limit_however_it_is_sent(sent: bytes, internals: Internals) -> None:
    internals(largest_response_bytes=1_000_000)
    with pytest.raises(HttpProtocolError, match="larger than 0 MiB"):
        receive(ResponseParser(), sent, repeat(ROOM))


@pytest.mark.parametrize("size", [1, 1_000, ROOM])
@pytest.mark.parametrize("fault", BROKEN)
def test_an_invalid_response_is_refused(fault: str, size: int) -> None:
    sent = BROKEN[fault]
    if size > 1 or len(sent) < 1_000:  # byte by byte the long ones say nothing new
        with pytest.raises(HttpProtocolError):
            receive(ResponseParser(), sent, repeat(size))
    else:
        with pytest.raises(HttpProtocolError):
            receive(ResponseParser(), sent, [*repeat(1, 90)])


@given(data=st.data(), sent=st.sampled_from([with_length(SMALL), chunked(split(SMALL, 30), trailer=b"a: b\r\n")]))
def test_a_response_truncated_anywhere_is_refused(data: st.DataObject, sent: bytes) -> None:
    framing = ResponseParser()
    receive(framing, sent[: data.draw(st.integers(0, len(sent) - 1))], repeat(11))
    assert (framing.is_done, framing.keep_alive) == (False, False)
    with pytest.raises(HttpProtocolError, match="ended in the middle"):
        framing.feed_eof()


@pytest.mark.parametrize(
    ("sent", "keeps"),
    [
        (with_length(b"x"), True),
        (with_length(b"x", b"Connection: keep-alive"), True),
        (with_length(b"x", b"Connection: Close"), False),
        (with_length(b"x", b"Connection: keep-alive", b"Connection: close"), False),
        (with_length(b"x", first=b"HTTP/1.0 200 OK\r\n"), False),
        (with_length(b"x", b"Connection: Keep-Alive", first=b"HTTP/1.0 200 OK\r\n"), True),
        (chunked([b"x"]), True),
        (chunked([b"x"], b"connection: close"), False),
        (with_length(b"x") + b"y", False),
        (chunked([b"x"]) + with_length(b"y"), False),
    ],
)
def test_a_connection_is_kept_when_both_sides_may(sent: bytes, keeps: bool) -> None:
    framing = ResponseParser()
    assert receive(framing, sent, ()) == 0
    assert (framing.is_done, framing.keep_alive, bytes(framing.body())) == (True, keeps, b"x")
