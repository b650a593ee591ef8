"""Single files and standard input: one resource or several, whole for rebuilds, as they come for updates."""

import contextlib
import gzip
import io
import os
import selectors
import subprocess
import sys
import tempfile
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

from indexer import RejectedLine, Source, SourceError, open_source
from indexer.reporting.report import RunStage
from mappings import AGENT, COMPANY, LISTING, OFFICE, RESOURCES, SOLD_LISTING, TEAM, Resource
from tests.indexer.conftest import Bench
from tests.indexer.source.packing import PACKERS
from tests.records import envelope

PATIENCE_SECONDS = 60
ALL = ", ".join(resource.alias for resource in RESOURCES)
# Two of each of two resources, one without a resource, one of an unknown resource, one that is not JSON.
MIXED = [
    b'{"resource": "teams", "n": 1}',
    b'{"resource": "agents", "n": 2}',
    b"",
    b'{"n": 4}',
    b'{"n": 5, "resource": "teams"}',
    b'{"resource": "houses"}',
    b"{nonsense",
    b'{"resource": null, "n": 8}',
    b'{"resource": "agents", "n": 9}',
    b'{"resource": "teams", "n": 10}',
]
FAULTY = {4: "is missing: use one of", 6: "is 'houses': use one of", 7: "cannot be read: ", 8: "is missing: use one"}


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Let the rest of the test find `data` on standard input."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@contextmanager
def opened(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], resource: Resource | None = None
) -> Iterator[Source]:
    """Open the same lines as a file or through standard input."""
    data = b"\n".join(lines)
    if kind == "file":
        path = tmp_path / "all.ndjson"
        path.write_bytes(data)
    else:
        piped(monkeypatch, data)
    with open_source(str(path) if kind == "file" else "-", resource=resource) as source:
        yield source


def read(source: Source, resource: Resource) -> tuple[list[tuple[int, bytes]], list[tuple[int, str]]]:
    """Return numbers and data of the good lines, and numbers and reasons of the others."""
    with source.open(resource) as reading:
        items = list(reading.lines)
        assert reading.position() == reading.total > 0
    good = [(item.number, item.data.strip()) for item in items if not isinstance(item, RejectedLine)]
    faults = [item for item in items if isinstance(item, RejectedLine)]
    assert all(fault.error.field == "resource" and fault.resource is None for fault in faults)
    return good, [(fault.line.number, fault.error.reason) for fault in faults]


@pytest.mark.parametrize("kind", ["file", "standard input"])
def test_a_mixed_source_is_sorted_and_lines_keep_their_numbers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(kind, tmp_path, monkeypatch, MIXED) as source:
        assert [resource for resource in RESOURCES if source.has(resource)] == [AGENT, TEAM]
        for _ in range(2):
            good, faults = read(source, TEAM)
            assert good == [(1, MIXED[0]), (5, MIXED[4]), (10, MIXED[9])]
            assert [number for number, _ in faults] == list(FAULTY)
            assert all(FAULTY[number] in reason for number, reason in faults)
            assert read(source, AGENT) == ([(2, MIXED[1]), (9, MIXED[8])], [])
        with source.open(AGENT) as reading:
            assert {line.file for line in reading.accepted_lines} == {
                "all.ndjson" if kind == "file" else "standard input"
            }


@pytest.mark.parametrize("kind", ["file", "standard input"])
def test_lines_that_name_no_resource_are_of_the_one_that_is_given(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(kind, tmp_path, monkeypatch, MIXED, OFFICE) as source:
        # The office decoder refuses invalid JSON; an unknown name stays unknown.
        assert [number for number, _ in read(source, OFFICE)[0]] == [4, 7, 8]
        good, faults = read(source, TEAM)
        assert (len(good), [number for number, _ in faults]) == (3, [6])


@pytest.mark.parametrize("kind", ["file", "standard input"])
def test_changes_pass_in_order_with_faults_in_their_place(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(kind, tmp_path, monkeypatch, MIXED) as source, source.changes() as feed:
        seen = [
            (item.line.number, item.resource) if isinstance(item, RejectedLine) else (item[1].number, item[0])
            for item in feed.lines
        ]
        assert seen == [
            *((1, TEAM), (2, AGENT), (4, None), (5, TEAM), (6, None), (7, None), (8, None), (9, AGENT), (10, TEAM))
        ]
        size = len(b"\n".join(MIXED))
        assert (feed.position(), feed.total) == (size, size if kind == "file" else 0)


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("listings.ndjson", LISTING),
        ("listings-2026-11-21.ndjson", LISTING),
        ("sold_listings-listings.ndjson", SOLD_LISTING),
        ("agents.part-1.ndjson", AGENT),
        ("my_listings.ndjson", None),
        ("listings_new.ndjson", None),
        ("all.ndjson", None),
    ],
)
def test_the_name_of_a_file_may_give_its_resource(
    tmp_path: Path, name: str, suffix: str, resource: Resource | None
) -> None:
    path = tmp_path / f"{name}{suffix}"
    path.write_bytes(PACKERS[suffix](b"{}"))
    with open_source(str(path)) as source, source.changes() as feed:
        [item] = feed.lines
        assert (item.resource if isinstance(item, RejectedLine) else item[0]) is resource


def test_a_given_resource_wins_over_the_name_and_a_named_one_over_both(tmp_path: Path) -> None:
    (tmp_path / "listings.ndjson").write_bytes(b'{}\n{"resource": "teams"}')
    with open_source(str(tmp_path / "listings.ndjson"), resource=AGENT) as source:
        assert [resource for resource in RESOURCES if source.has(resource)] == [AGENT, TEAM]


def test_a_source_of_faults_alone_is_an_error_that_shows_the_first(tmp_path: Path) -> None:
    (tmp_path / "all.ndjson").write_bytes(b"\n{}\n[]")
    with (
        open_source(str(tmp_path / "all.ndjson")) as source,
        pytest.raises(SourceError, match=rf"^all\.ndjson has no lines of a known resource; line 2: resource: .* {ALL}"),
    ):
        source.has(TEAM)


def test_an_empty_source_has_nothing(tmp_path: Path) -> None:
    (tmp_path / "teams.ndjson").touch()
    with open_source(str(tmp_path / "teams.ndjson")) as source:
        assert not source.has(TEAM)


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "teams.ndjson"
    path.touch()
    with open_source(str(path)) as source:
        path.unlink()
        with pytest.raises(SourceError, match=r"teams\.ndjson cannot be opened: No such file or directory\.$"):
            source.has(TEAM)


def test_the_identity_of_a_file_follows_its_state_and_that_of_standard_input_its_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "teams.ndjson"
    path.write_bytes(b"{}")
    os.utime(path, ns=(0, 1_500_000_000_123_456_789))
    with open_source(str(path)) as source:
        first = source.identity(TEAM)
        assert source.taken_at(TEAM) == 1_500_000_000_123_456
    os.utime(path, ns=(0, 1))
    with open_source(str(path)) as source:
        assert source.identity(TEAM) != first
    found = []
    for lines in (MIXED, MIXED, [*MIXED, MIXED[0]]):
        with opened("standard input", tmp_path, monkeypatch, lines) as source:
            found.append((source.identity(AGENT) if source.has(AGENT) else "", source.identity(TEAM)))
    assert found[0] == found[1]
    assert found[2][0] == found[0][0]
    assert found[2][1] != found[0][1]


def test_temporary_files_are_gone_at_the_end_even_after_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    piped(monkeypatch, b"\n".join(MIXED))
    with contextlib.suppress(ZeroDivisionError), open_source("-") as source:
        assert source.has(TEAM)
        assert [path.name for path in tmp_path.glob("*/teams.zst")] == ["teams.zst"]
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_standard_input_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    piped(monkeypatch, b"{}")
    with open_source("-", resource=TEAM) as source:
        with source.changes() as feed:
            assert len(list(feed.lines)) == 1
        with pytest.raises(SourceError, match="Standard input has already been read"):
            source.has(TEAM)


def test_memory_does_not_grow_with_the_source(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "teams.ndjson.gz", "wb") as packed:
        packed.writelines(b'{"n": "%s"}\n' % os.urandom(5000).hex().encode() for _ in range(4000))
    tracemalloc.start()
    try:
        with open_source(str(tmp_path / "teams.ndjson.gz")) as source:
            assert source.has(TEAM)
            with source.open(TEAM) as reading:
                assert sum(1 for _ in reading.lines) == 4000
            with source.changes() as feed:
                assert sum(1 for _ in feed.lines) == 4000
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000  # bytes, of 40 million


WATCHER = """
from indexer import open_source
with open_source("-") as source, source.changes() as feed:
    for resource, line in feed.lines:
        print(resource.alias, line.number, flush=True)
print("end", flush=True)
"""


def _flushing(packer: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    """Return what packs a piece so that it can be read at once, and what ends the stream."""
    if packer == "":
        return bytes, bytes
    if packer == ".gz":
        deflate = zlib.compressobj(wbits=31)
        return lambda data: deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH), deflate.flush
    frame = zstandard.ZstdCompressor().compressobj()
    return lambda data: frame.compress(data) + frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), frame.flush


@pytest.mark.parametrize("packer", PACKERS)
def test_lines_of_standard_input_are_handed_on_before_its_end(packer: str) -> None:
    """Without that, the watcher would wait for more input and this test for its answer."""
    pack, end = _flushing(packer)
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", WATCHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as watcher:
        try:
            assert watcher.stdin
            for number, alias in enumerate(("teams", "agents", "teams"), 1):
                watcher.stdin.write(pack(b'{"resource": "%s"}\n' % alias.encode()))
                assert _answer(watcher) == f"{alias} {number}\n".encode()
            watcher.stdin.write(end())
            watcher.stdin.close()
            assert _answer(watcher) == b"end\n"
        finally:
            watcher.kill()


def _answer(watcher: subprocess.Popen[bytes]) -> bytes:
    assert watcher.stdout
    answer = b""
    with selectors.DefaultSelector() as selector:
        selector.register(watcher.stdout, selectors.EVENT_READ)
        while not answer.endswith(b"\n"):
            assert selector.select(PATIENCE_SECONDS), "nothing came"
            answer += os.read(watcher.stdout.fileno(), 65536)
    return answer


def named(resource: Resource, *changes: Any) -> bytes:
    return orjson.dumps(envelope(resource, *changes) | {"resource": resource.alias})


async def test_a_mixed_file_is_built_resource_by_resource(bench: Bench) -> None:
    bench.folder.mkdir()
    wrong = orjson.dumps(envelope(TEAM))
    lines = [named(TEAM, {"uuid": "t1"}), named(COMPANY), wrong, named(TEAM, {"uuid": "t2"}), named(AGENT)]
    path = bench.folder / "all.ndjson.zst"
    path.write_bytes(PACKERS[".zst"](b"\n".join(lines)))
    with open_source(str(path)) as source:
        summary = await bench.build_source(source)
    assert {report.resource: (report.stage, report.read, report.dead) for report in summary.resources} == {
        "companies": (RunStage.SWAPPED, 1, 0),
        "offices": (RunStage.ABSENT, 0, 0),
        "agents": (RunStage.SWAPPED, 1, 0),
        "teams": (RunStage.SWAPPED, 3, 1),
        "listings": (RunStage.ABSENT, 0, 0),
        "sold_listings": (RunStage.ABSENT, 0, 0),
    }
    assert sorted(await bench.served(TEAM)) == ["t1", "t2"]
    [letter] = bench.letters()
    assert letter == {
        "file": "all.ndjson.zst",
        "line": 3,
        "records": None,
        "field": "resource",
        "reason": f"is missing: use one of {ALL}",
        "payload": wrong.decode(),
    }


async def test_in_a_folder_a_line_of_another_resource_is_a_fault(bench: Bench) -> None:
    other = envelope(TEAM, {"uuid": "t3"}) | {"resource": "agents"}
    summary = await bench.build({TEAM: [named(TEAM, {"uuid": "t1"}), other, named(TEAM, {"uuid": "t2"})]})
    assert summary.report_for("teams").dead == 1
    assert [(letter["line"], letter["field"]) for letter in bench.letters()] == [(2, "resource")]
    assert sorted(await bench.served(TEAM)) == ["t1", "t2"]


async def test_faults_do_not_affect_the_passes_after_the_build(bench: Bench) -> None:
    """Companies and duplicate records are read in passes of their own."""
    bench.folder.mkdir()
    newer = orjson.dumps(envelope(COMPANY, updated_at="2026-02-02T00:00:00Z") | {"resource": "companies"})
    (bench.folder / "all.ndjson").write_bytes(b"\n".join([named(COMPANY), b"{}", newer]))
    with open_source(str(bench.folder / "all.ndjson")) as source:
        summary = await bench.build_source(source)
    report = summary.report_for("companies")
    assert (report.read, report.dead, report.merged, report.indexed) == (3, 1, 1, 1)
