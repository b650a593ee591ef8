"""What a table in many files costs: `python -m bench.many_files [--rows N] [--files N] [--rounds N] [--load]`.

The same made-up listings in one file and in many, alternately: rows a second of CPU time from cells to envelopes. With
`--load`, `brokerage index reindex` also loads them, into the Elasticsearch of ELASTICSEARCH_URL under a prefix of its
own or into an embedded node: rows a second of wall time, and the peak memory of that process.
"""

import argparse
import asyncio
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from bench.loading import unload
from bench.scratch import node_url
from cluster.connection import ConnectionSettings
from indexer import open_source
from mappings import LISTING

# The peak of the process itself: that of a child which the kernel reports includes its parent's.
_START = """
import atexit, pathlib, sys
from brokerage.command import main
status = pathlib.Path("/proc/self/status")
atexit.register(lambda: print(*[line for line in status.read_text().splitlines() if "VmHWM" in line], file=sys.stderr))
main(prog_name="brokerage")
"""
_HEADER = (
    "MLS #,Status,List Price,No,Street,Unit,City,State,Zip,Beds,Baths,SqFt,Lot SqFt,List Date,Modified,Photos,Remarks"
)
_MAP = """
resource = "listings"
files = ["{files}"]
updated_at = {{column = "Modified", format = "%m/%d/%Y %I:%M %p"}}
time_zone = "America/New_York"
currency = "$"
thousands = ","
date_format = "%m/%d/%Y"
[company]
platform_company_id = "bench"
name = "Bench"
[record]
PlatformListingId = {{column = "MLS #"}}
Status = {{column = "Status"}}
ListPrice = {{column = "List Price"}}
Address = {{join = ["No", "Street", "Unit"]}}
City = {{column = "City"}}
StateOrProvince = {{column = "State"}}
PostalCode = {{column = "Zip"}}
BedroomsTotal = {{column = "Beds"}}
BathroomsFull = {{formula = "floor({{Baths}})"}}
BathroomsHalf = {{formula = "ceil({{Baths}} % 1)"}}
LivingArea = {{column = "SqFt"}}
LotSizeAcres = {{formula = "{{Lot SqFt}} / 43560"}}
ListingContractDate = {{column = "List Date"}}
ListingImages = [{{FullURL = {{column = "Photos", split = "|"}}}}]
PublicRemarks = {{column = "Remarks"}}
"""


def _row(number: int) -> str:
    chosen = random.Random(number)  # noqa: S311 - made-up values
    day = f"{chosen.randint(1, 12)}/{chosen.randint(1, 28)}/2024"
    values = [
        f"B-{number}",
        "Active",
        f'"${chosen.randint(100, 4999) * 1000:,}"',
        str(chosen.randint(1, 900)),
        "Elm St",
        "",
    ]
    values += ["Rye", "NY", "10580", str(chosen.randint(1, 6)), "2.5", f'"{chosen.randint(900, 5000):,}"', "43560", day]
    photos = "|".join(f"https://img.example.com/{number}/{index}.jpg" for index in range(5))
    return ",".join([*values, f"{day} {chosen.randint(1, 12)}:30 PM", photos, "A made-up home near the station. " * 10])


def write_tables(folder: Path, rows: int, files: int) -> dict[str, Path]:
    """Write the rows to one file and to many; return the column maps by name."""
    lines = [_row(number) for number in range(rows)]
    per_file = -(-rows // files)
    for name, size in (("one", rows), ("many", per_file)):
        (folder / name).mkdir()
        for index, start in enumerate(range(0, rows, size)):
            text = "\n".join([_HEADER, *lines[start : start + size]])
            (folder / name / f"{index:04}.csv").write_text(f"{text}\n")
        (folder / f"{name}.toml").write_text(_MAP.format(files=f"{name}/*.csv"))
    return {name: folder / f"{name}.toml" for name in ("one", "many")}


def converted(path: Path) -> float:
    """Read a source, and return the seconds of CPU time."""
    started = time.process_time()
    with open_source(str(path)) as source, source.open(LISTING) as stream:
        for _ in stream.lines:
            pass
    return time.process_time() - started


def loaded(path: Path, environment: dict[str, str]) -> float:
    """Rebuild from a source in a process, print its peak memory, and return the seconds of wall time."""
    started = time.perf_counter()
    command = [sys.executable, "-c", _START, "index", "reindex", str(path), "--json"]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - a fixed command
    return time.perf_counter() - started


@contextmanager
def _node() -> Iterator[dict[str, str]]:
    """Yield the environment of commands for a node; what they create there is deleted."""
    with node_url() as url:
        connection = ConnectionSettings(url=(url,), prefix=f"bench-{secrets.token_hex(4)}-")
        try:
            yield {**os.environ, "ELASTICSEARCH_URL": url, "BROKERAGE_INDEX_PREFIX": connection.prefix}
        finally:
            asyncio.run(unload(connection))


def _print(label: str, maps: dict[str, Path], measure: Callable[[Path], float], rows: int, rounds: int) -> None:
    """Measure both forms alternately, and print rows a second and their ratio."""
    taken: dict[str, list[float]] = {name: [] for name in maps}
    for _ in range(rounds):
        for name, path in maps.items():
            taken[name].append(measure(path))
    one, many = (rows / median(taken[name]) for name in ("one", "many"))
    print(f"{label}: one file {one:,.0f} rows/s, many files {many:,.0f} rows/s, ratio {many / one:.2f}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=91_905)
    parser.add_argument("--files", type=int, default=114)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", action="store_true", help="also load them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        maps = write_tables(Path(folder), options.rows, options.files)
        _print("converted, CPU time", maps, converted, options.rows, options.rounds)
        if options.load:
            with _node() as environment:
                _print("loaded, wall time", maps, lambda path: loaded(path, environment), options.rows, options.rounds)


if __name__ == "__main__":
    main()
