"""Writes a whole source directory of any size in bounded memory: under temporary names first, in place at the end."""

import datetime as dt
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from mappings import AGENT, COMPANY, LISTING, OFFICE, SOLD_LISTING, TEAM, Resource
from sample.ingredients import SampleClock, format_timestamp, seeded_random
from sample.listings import listing_lines, sold_listing_lines
from sample.properties import PropertyFields, cycle_sales, read_sales
from sample.staff import SampleStaff, agent_lines, company_lines, office_lines, team_lines

# The first line of README.txt, by which a directory of ours is known.
README_FIRST_LINE = "Generated sample data for the brokerage service."

# Called with the resource's alias and the records written so far.
WriteProgress = Callable[[str, int], None]

_README = """{mark}

Nothing here is an offer. Companies, offices, agents, teams, addresses, remarks and images are invented from a seed;
every domain is one of those reserved for examples and every telephone number one of those reserved for fiction.

Prices, sizes, years, coordinates, zip codes and parcel numbers come from sales in King County, Washington, of 2014 and
2015, moved in time. Sold listings are those sales; listings are further ones of them, shown as if they were for sale,
with property types, terms and the prices that go with them invented. Where there are more records than sales, a sale
comes again with changed values; its parcel number then begins with G.

Written for {now} with seed {seed}:
{counts}
"""


@dataclass(frozen=True)
class SourceSummary:
    """What a run wrote: records by resource alias, where, and from which seed."""

    directory: Path
    seed: int
    counts: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def _readme(summary: SourceSummary, clock: SampleClock) -> str:
    """Return the text of README.txt, which says that the data is generated."""
    counts = "\n".join(f"  {resource}: {count}" for resource, count in summary.counts.items())
    return _README.format(mark=README_FIRST_LINE, now=format_timestamp(clock.now), seed=summary.seed, counts=counts)


def write_source(
    directory: Path,
    listings: int,
    seed: int = 7,
    now: dt.datetime | None = None,
    on_progress: WriteProgress | None = None,
) -> SourceSummary:
    """Write a source directory with `listings` listings and about half as many sold ones; replaces an earlier sample.

    The same arguments give the same bytes; without `now` the clocks are relative to the present.
    Raises SampleError, and leaves the directory as it was, where it cannot be written.
    """
    if listings < 1:
        raise SampleError(f"listings must be at least 1, but is {listings}.")
    clock = SampleClock.at(now)
    with _staged_directory(directory) as draft:
        generated = _generated(listings, seed, clock)
        counts = {
            resource.alias: write_lines(draft / f"{resource.alias}.ndjson", lines, on_progress)
            for resource, lines in generated.items()
        }
        summary = SourceSummary(directory, seed, counts)
        (draft / README).write_text(_readme(summary, clock), encoding="utf-8")
    return summary


def sold_count(listings: int) -> int:
    return max(1, listings // 2)


def _generated(listings: int, seed: int, clock: SampleClock) -> dict[Resource, Iterator[bytes]]:
    """Return the lines of each resource, made while they are read.

    Sold listings use the first sales, the others those after them.
    """
    staff, homes = SampleStaff(listings, seed, clock), PropertyFields(seed, clock.year - 1)
    sales, sold = read_sales(), sold_count(listings)
    seeded_random(seed, "sales").shuffle(sales)
    for_sale = cycle_sales(sales, seeded_random(seed, "changed listings"), skip=sold)
    of_old = cycle_sales(sales, seeded_random(seed, "changed sales"))
    return {
        COMPANY: company_lines(seed, clock),
        OFFICE: office_lines(staff.offices, seed, clock),
        AGENT: agent_lines(staff.agents, seed, clock),
        TEAM: team_lines(staff.teams, seed, clock),
        LISTING: listing_lines(staff, homes, islice(for_sale, listings), seed, clock),
        SOLD_LISTING: sold_listing_lines(staff, homes, islice(of_old, sold), seed, clock),
    }


README = "README.txt"
_DRAFT = ".writing"
_LINES_PER_REPORT = 1000  # lines
_BUFFER = 1 << 20  # bytes


class SampleError(Exception):
    """The source cannot be written; the message is one sentence for the person who asked."""


@contextmanager
def _staged_directory(directory: Path) -> Iterator[Path]:
    """Give a folder to write into and, when all went well, move its files into `directory`.

    Raises SampleError where the directory holds files of others, or the disk refuses.
    """
    try:
        created = _prepare(directory)
        try:
            yield directory / _DRAFT
            _publish(directory)
        finally:
            shutil.rmtree(directory / _DRAFT, ignore_errors=True)
            if created:
                _remove_if_empty(directory)
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise SampleError(
            f"The sample cannot be written to {directory} ({reason}); fix that or choose another directory."
        ) from problem


def write_lines(path: Path, lines: Iterable[bytes], on_progress: WriteProgress | None) -> int:
    """Write the lines to `path` and return how many they are; reports the count so far under the file's stem."""
    count = 0
    with path.open("wb", buffering=_BUFFER) as file:
        for count, line in enumerate(lines, 1):
            file.write(line)
            if on_progress and count % _LINES_PER_REPORT == 0:
                on_progress(path.stem, count)
    if on_progress:
        on_progress(path.stem, count)
    return count


def _prepare(directory: Path) -> bool:
    """Make directory and draft folder; return whether the directory is new."""
    created = not directory.exists()
    if not created:
        _require_own(directory)
    shutil.rmtree(directory / _DRAFT, ignore_errors=True)
    (directory / _DRAFT).mkdir(parents=True)
    return created


def _require_own(directory: Path) -> None:
    if not directory.is_dir():
        raise SampleError(f"{directory} is a file; name a directory that is empty or does not exist yet.")
    names = {entry.name for entry in directory.iterdir()} - {_DRAFT}
    if names and not _is_sample(directory):
        raise SampleError(
            f"{directory} holds files that are not generated sample data, such as {min(names)};"
            " name a directory that is empty or does not exist yet."
        )


def _is_sample(directory: Path) -> bool:
    readme = directory / README
    return readme.is_file() and readme.read_text(encoding="utf-8", errors="replace").startswith(README_FIRST_LINE)


def _publish(directory: Path) -> None:
    """Move the files; the README first, so that a directory that was cut off here is still known as ours."""
    for file in sorted((directory / _DRAFT).iterdir(), key=lambda file: file.name != README):
        file.replace(directory / file.name)


def _remove_if_empty(directory: Path) -> None:
    if not any(directory.iterdir()):
        directory.rmdir()
