"""The negotiated coding, and that a decompressed body equals the uncompressed one."""

import gzip
import threading
import zlib
from collections.abc import Sequence

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from service.http import responses
from service.http.requests import ContentCoding, preferred_coding
from service.http.responses import BodyBuffers, compress, compress_async

PACKED = [ContentCoding.GZIP, ContentCoding.ZSTD]
WRONG_WEIGHTS = ["", "=", "=2", "=1.001", "=0.1234", "=-1", "=.5", "=nan", "=1e0", " =1", "= 1", "=1;q=0", "=1 ;a=b"]
WRONG_NAMES = ["gz ip", "gzip;level=9", "gzip q=1", '"gzip"', ";q=1", "g/zip", "gzip;", "z\u017ftd", "zstd\x0b"]
MALFORMED = [*WRONG_NAMES, *(f"{name};q{weight}" for name in ("gzip", "zstd") for weight in WRONG_WEIGHTS)]
SPACE = st.text(" \t", max_size=2)
NAMES = st.sampled_from(["gzip", "zstd", "identity", "*"]) | st.sampled_from(
    ["x-gzip", "br", "deflate", "gzip2", "zst"]
)
# In thousandths, often the same; none is written where it is absent.
WEIGHTS = st.sampled_from([None, 0, 500, 1000]) | st.integers(0, 1000)
ELEMENTS = st.lists(st.tuples(NAMES, WEIGHTS), max_size=5)


@pytest.mark.parametrize(
    ("accept", "coding"),
    [
        ("", "identity"),
        ("gzip", "gzip"),
        ("zstd", "zstd"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, deflate, br", "gzip"),
        ("x-gzip", "gzip"),
        ("GZip;Q=0.5", "gzip"),
        ("zstd;q=0.5, gzip;q=0.6", "gzip"),
        ("zstd;q=0, gzip", "gzip"),
        ("gzip;q=0.2, identity;q=0.5", "identity"),
        ("gzip, identity", "gzip"),
        ("br, deflate", "identity"),
        ("*", "gzip"),
        ("gzip;q=0, *", "identity"),
        ("identity;q=0, *;q=0.1", "gzip"),
        ("*;q=0, zstd;q=0.001", "zstd"),
        ("identity;q=0", "identity"),
        ("*;q=0", "identity"),
        ("gzip;q=1, gzip;q=0", "identity"),
        ("gzip;q=0, x-gzip", "identity"),
        ("zstd;q=7, gzip", "gzip"),
        (",, gzip ,", "gzip"),
        ("gzip \t;\tq=0.000", "identity"),
        ("gzip;q=1.000", "gzip"),
    ],
)
def test_the_coding_follows_the_weights_of_the_client(accept: str, coding: str) -> None:
    assert preferred_coding(accept).value == coding


def expected(elements: Sequence[tuple[str, int | None]]) -> str:
    """Return the coding by the rules, read off the elements instead of their text."""

    def weight(names: set[str], rest: set[str]) -> int:
        own = [1000 if thousandths is None else thousandths for name, thousandths in elements if name in names]
        if own or not rest:
            return min(own, default=0)
        return weight(rest, set())

    ranked = [
        (weight({"identity"}, {"*"}), 0, "identity"),
        (weight({"gzip", "x-gzip"}, {"*"}), 1, "gzip"),
        (weight({"zstd"}, set()), 2, "zstd"),
    ]
    heaviest, _, coding = max(ranked)
    return coding if heaviest else "identity"


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, list[tuple[str, int | None]]]:
    """Return a header and its elements: any case, any whitespace, with malformed elements in between."""
    elements = draw(ELEMENTS)
    written: list[str] = []
    for name, thousandths in elements:
        spelt = "".join(draw(st.sampled_from([letter, letter.upper()])) for letter in name)
        weight = "" if thousandths is None else draw(weights(thousandths))
        written += [*draw(st.lists(st.sampled_from([*MALFORMED, ""]), max_size=2)), spelt + weight]
    return ",".join(draw(SPACE) + element + draw(SPACE) for element in written), elements


@st.composite
def weights(draw: st.DrawFn, thousandths: int) -> str:
    """Return a weight as a client may write it, with what separates it from the name."""
    whole, decimals = f"{thousandths / 1000:.3f}".split(".")
    shortest = decimals.rstrip("0")
    number = draw(st.sampled_from([f"{whole}.{decimals}", f"{whole}.{shortest}", *([] if shortest else [whole])]))
    return f"{draw(SPACE)};{draw(SPACE)}{draw(st.sampled_from('qQ'))}={number}"


@given(lines())
def test_any_header_is_read_by_the_rules(line: tuple[str, list[tuple[str, int | None]]]) -> None:
    assert preferred_coding(line[0]).value == expected(line[1])


@pytest.mark.parametrize("element", MALFORMED)
def test_a_malformed_element_is_as_if_absent(element: str) -> None:
    assert preferred_coding(element) is ContentCoding.IDENTITY
    assert preferred_coding(f"{element}, gzip;q=0.5") is ContentCoding.GZIP
    assert preferred_coding(f"zstd;q=0.5, {element}") is ContentCoding.ZSTD


@given(st.text())
def test_no_coding_is_used_that_the_header_does_not_name(text: str) -> None:
    coding = preferred_coding(text)
    assert coding is ContentCoding.IDENTITY or coding in text.lower() or (coding is ContentCoding.GZIP and "*" in text)


def unpacked(body: bytes, coding: ContentCoding) -> bytes:
    """Decompress as a client would, gzip by another library: one frame and nothing after it."""
    if coding is ContentCoding.IDENTITY:
        return body
    if coding is ContentCoding.GZIP:
        stream = zlib.decompressobj(wbits=31)
        found = stream.decompress(body)
        assert (stream.eof, stream.unused_data) == (True, b"")
        return found
    return zstandard.ZstdDecompressor().decompress(body, allow_extra_data=False)


def viewed(piece: bytes) -> memoryview:
    """Return a piece as a view into what it was cut from."""
    return memoryview(b"<" + piece + b">")[1:-1]


PIECES = st.lists(st.binary() | st.binary().map(bytearray) | st.binary().map(viewed))


@given(PIECES, st.sampled_from(list(ContentCoding)))
def test_pieces_come_back_joined(pieces: list[bytes], coding: ContentCoding) -> None:
    assert unpacked(compress(pieces, coding), coding) == b"".join(pieces)


@pytest.mark.parametrize("coding", PACKED)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
async def test_a_body_comes_back_as_it_was(coding: ContentCoding, kind: type[bytes]) -> None:
    body = b'{"PublicRemarks":"A quiet street"},' * 40_000
    packed = await compress_async(kind(body), coding)
    assert unpacked(packed, coding) == body
    assert len(packed) < len(body) / 20
    assert packed == compress(body, coding)


@pytest.mark.parametrize("coding", PACKED)
@pytest.mark.parametrize("cut", [False, True], ids=["whole", "pieces"])
async def test_only_large_bodies_leave_the_loop(
    coding: ContentCoding, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def noted(body: BodyBuffers, coding: ContentCoding) -> bytes:
        threads.append(threading.current_thread())
        return compress(body, coding)

    monkeypatch.setattr(responses, "compress", noted)
    lengths = [responses.THREAD_THRESHOLD_BYTES, responses.THREAD_THRESHOLD_BYTES + 1]
    for length in lengths:
        body = [b"x", bytes(length - 1)] if cut else b"x" + bytes(length - 1)
        assert len(unpacked(await compress_async(body, coding), coding)) == length
    assert [thread is threading.current_thread() for thread in threads] == [True, False]


def test_zstd_keeps_to_the_window_that_clients_have() -> None:
    """RFC 9659: no more than 8 MiB, also for the largest page."""
    packed = compress(b"".join(b'{"ListingID":"%d"},' % number for number in range(600_000)), ContentCoding.ZSTD)
    frame = zstandard.get_frame_parameters(packed)
    assert frame.content_size > 8 * 1024**2 >= frame.window_size > 0


def test_gzip_contains_neither_time_nor_name() -> None:
    packed = compress(b"{}", ContentCoding.GZIP)
    assert (packed[:4], packed[4:8]) == (b"\x1f\x8b\x08\x00", bytes(4))
    assert gzip.decompress(packed) == b"{}"
