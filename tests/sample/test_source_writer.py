"""How a source directory is written: reproducibly, whole or not at all, and never over the files of others."""

import contextlib
import datetime as dt
import resource
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from mappings import RESOURCES
from sample import SampleError, write_source

NOW = dt.datetime(2026, 11, 20, 10, tzinfo=dt.UTC)
FILES = {"README.txt", *(f"{resource.alias}.ndjson" for resource in RESOURCES)}


def content(directory: Path) -> dict[str, bytes]:
    """Return the contents of a directory, hidden files included."""
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_a_source_is_six_files_and_a_readme(tmp_path: Path) -> None:
    summary = write_source(tmp_path / "source", 30, now=NOW)
    assert set(content(tmp_path / "source")) == FILES
    lines = {name: (tmp_path / "source" / f"{name}.ndjson").read_bytes().count(b"\n") for name in summary.counts}
    assert summary.counts == lines
    assert (summary.counts["listings"], summary.counts["sold_listings"]) == (30, 15)
    assert summary.total == sum(lines.values())


def test_a_single_listing_comes_with_a_single_sold_one(tmp_path: Path) -> None:
    counts = write_source(tmp_path, 1, now=NOW).counts
    assert (counts["listings"], counts["sold_listings"]) == (1, 1)


def test_the_readme_says_what_is_generated_and_from_which_seed(tmp_path: Path) -> None:
    write_source(tmp_path, 10, seed=4711, now=NOW)
    text = (tmp_path / "README.txt").read_text()
    assert text.startswith("Generated sample data")
    assert "seed 4711" in text
    assert "2026-11-20T10:00:00.000Z" in text


def test_the_same_arguments_give_the_same_bytes(tmp_path: Path) -> None:
    write_source(tmp_path / "one", 300, seed=3, now=NOW)
    write_source(tmp_path / "two", 300, seed=3, now=NOW.astimezone(dt.timezone(dt.timedelta(hours=-8))))
    assert content(tmp_path / "one") == content(tmp_path / "two")


def test_another_seed_gives_other_records(tmp_path: Path) -> None:
    for seed in (1, 2):
        write_source(tmp_path / str(seed), 50, seed=seed, now=NOW)
    one, two = content(tmp_path / "1"), content(tmp_path / "2")
    assert all(one[name] != two[name] for name in FILES)


def test_without_a_moment_the_clocks_are_relative_to_the_present(tmp_path: Path) -> None:
    write_source(tmp_path, 50)
    today = dt.datetime.now(dt.UTC).date()
    days = {
        line.split(b'"updated_at":"')[1][:10].decode()
        for line in (tmp_path / "listings.ndjson").read_bytes().splitlines()
    }
    assert today - dt.timedelta(days=7) < dt.date.fromisoformat(max(days)) <= today


def test_progress_is_shown_by_resource_up_to_the_count(tmp_path: Path) -> None:
    progress: list[tuple[str, int]] = []
    write_source(tmp_path, 2500, now=NOW, on_progress=lambda name, count: progress.append((name, count)))
    assert [count for name, count in progress if name == "listings"] == [1000, 2000, 2500]


def test_an_earlier_sample_is_replaced_and_other_files_are_kept(tmp_path: Path) -> None:
    write_source(tmp_path, 40, seed=1, now=NOW)
    (tmp_path / "notes.txt").write_text("mine")
    write_source(tmp_path, 20, seed=2, now=NOW)
    assert set(content(tmp_path)) == FILES | {"notes.txt"}
    assert (tmp_path / "listings.ndjson").read_bytes().count(b"\n") == 20


@pytest.mark.parametrize("name", ["holiday.jpg", "listings.ndjson", "README.txt"])
def test_a_directory_with_files_of_others_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("not ours")
    with pytest.raises(SampleError, match=f"not generated sample data, such as {name}; name a directory"):
        write_source(tmp_path, 10, now=NOW)
    assert content(tmp_path) == {name: b"not ours"}


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SampleError, match="file is a file; name a directory"):
        write_source(tmp_path / "file", 10, now=NOW)


def test_fewer_than_one_listing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SampleError, match="listings must be at least 1, but is 0"):
        write_source(tmp_path / "source", 0, now=NOW)
    assert not (tmp_path / "source").exists()


def interrupt(name: str, count: int) -> None:
    """Stop the run in the middle of the sold listings, as Ctrl-C would."""
    if (name, count) == ("sold_listings", 1000):
        raise KeyboardInterrupt


def test_an_interrupted_run_leaves_no_new_directory(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        write_source(tmp_path / "source", 2400, now=NOW, on_progress=interrupt)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_leaves_an_earlier_sample_as_it_was(tmp_path: Path) -> None:
    write_source(tmp_path, 20, seed=1, now=NOW)
    before = content(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        write_source(tmp_path, 2400, seed=2, now=NOW, on_progress=interrupt)
    assert content(tmp_path) == before


def test_a_run_goes_on_where_an_earlier_one_was_killed(tmp_path: Path) -> None:
    (tmp_path / ".writing").mkdir()
    (tmp_path / ".writing" / "offices.ndjson.half").write_text("cut off")
    write_source(tmp_path, 20, now=NOW)
    assert set(content(tmp_path)) == FILES


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the operating system refuse to let any file of this process grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_refuses_is_reported_in_one_sentence_and_nothing_is_left(tmp_path: Path) -> None:
    with (
        files_of_at_most(3_000_000),
        pytest.raises(SampleError, match=r"cannot be written to .*source \(File too large\);"),
    ):
        write_source(tmp_path / "source", 1000, now=NOW)
    assert list(tmp_path.iterdir()) == []


def peak_memory(directory: Path, listings: int) -> int:
    """Return the most bytes that were allocated at a time while so many listings were written."""
    tracemalloc.start()
    try:
        write_source(directory, listings, now=NOW)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_listings(tmp_path: Path) -> None:
    small, large = peak_memory(tmp_path / "small", 100), peak_memory(tmp_path / "large", 1_500)
    assert (tmp_path / "large" / "listings.ndjson").stat().st_size > 9_000_000
    assert large < 1.15 * small
