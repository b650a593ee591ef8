"""`python -m bench.zstd_pair`: the service's zstd compared with `zstandard`, on pages of generated listings.

Prints milliseconds a body, medians of rounds with both in random order: processor time in one thread, and the time that
passes for bodies in two threads.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import orjson
import zstandard

from cluster.zstd import zstd
from sample import write_source
from service.http.compression import ZSTD_LEVEL, compress
from service.http.negotiation import ContentCoding

Work = Callable[[], int]

_ROUNDS = 21
_LISTINGS = 1000
_CHUNK = 100
_BODIES_IN_THREADS = 8


def _records() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        write_source(Path(folder) / "sample", _LISTINGS)
        lines = (Path(folder) / "sample/listings.ndjson").read_bytes().splitlines()
    return [orjson.dumps(orjson.loads(line)["record"]) for line in lines]


def _page_by_zstandard(compressor: zstandard.ZstdCompressor, page: bytes) -> int:
    return len(bytes(memoryview(compressor.compress(page))))


def _page(page: bytes) -> int:
    return len(compress(page, ContentCoding.ZSTD))


def _stream_by_zstandard(chunks: list[bytes]) -> int:
    stream = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compressobj()
    sent = sum(len(stream.compress(chunk) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)) for chunk in chunks)
    return sent + len(stream.flush())


def _stream(chunks: list[bytes]) -> int:
    stream = zstd.ZstdCompressor(level=ZSTD_LEVEL)
    return sum(len(stream.compress(chunk, stream.FLUSH_BLOCK)) for chunk in chunks) + len(stream.flush())


def _processor_time(work: Work) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _time_in_threads(work: Work) -> float:
    with ThreadPoolExecutor(2) as threads:
        began = time.perf_counter()
        list(threads.map(lambda _: work(), range(_BODIES_IN_THREADS)))
        return (time.perf_counter() - began) / _BODIES_IN_THREADS


def _compare(name: str, ours: Work, theirs: Work, clock: Callable[[Work], float]) -> None:
    taken: dict[Work, list[float]] = {ours: [], theirs: []}
    for _ in range(_ROUNDS):
        for work in random.sample([ours, theirs], 2):
            taken[work].append(clock(work) * 1000)
    mine, other = statistics.median(taken[ours]), statistics.median(taken[theirs])
    print(f"{name:<32} {mine:8.3f} {other:10.3f} {mine / other:6.2f} {ours():>10,} {theirs():>10,}")


def run() -> None:
    """Measure, and print a row per body."""
    records = _records()
    chunks = [b"\n".join(records[start : start + _CHUNK]) for start in range(0, len(records), _CHUNK)]
    print(f"{'':<32} {'service':>8} {'zstandard':>10} {'ratio':>6} {'bytes':>10} {'bytes':>10}")
    for size in (1, 50, 200, _LISTINGS):
        page = b",".join(records[:size])
        reference = partial(_page_by_zstandard, zstandard.ZstdCompressor(level=ZSTD_LEVEL), page)
        _compare(f"page of {size}", partial(_page, page), reference, _processor_time)
    streams = partial(_stream, chunks), partial(_stream_by_zstandard, chunks)
    _compare(f"stream of {_LISTINGS}", *streams, _processor_time)
    _compare(f"stream of {_LISTINGS}, two threads", *streams, _time_in_threads)


if __name__ == "__main__":
    run()
