"""What parsing a listing costs in two versions of the indexer: `python -m bench.parsing --before CHECKOUT`.

Parses the same lines in alternating processes, without Elasticsearch: those of the sample, whose numbers are whole, and
the same ones with a fraction in the acres. Prints the processor time per line of each, and the median of the ratios.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from indexer.documents.companies import Companies
from indexer.documents.line_parser import LineParser, ParsedChunk
from indexer.source.lines import SourceLine
from mappings import LISTING
from sample import write_source

_ACRES = re.compile(rb'("LotSizeAcres": ?\d+)(?=[,}])')
_TIMES = 5


def add_fractions(path: Path) -> None:
    """Give each listing of a file a quarter of an acre more."""
    path.write_bytes(_ACRES.sub(rb"\1.25", path.read_bytes()))


def _parse(path: Path) -> float:
    """Return the microseconds of processor time per line, of the fastest pass."""
    lines = [SourceLine(path.name, at, line) for at, line in enumerate(path.read_bytes().splitlines(), 1)]
    keys = set(re.findall(rb'"platform_company_id": ?"([^"]+)"', path.read_bytes()))
    names = {key.decode() for key in keys}
    companies = Companies(keys=names, keys_by_numeric_id={}, reserved_keys=frozenset(names))
    taken = []
    for _ in range(_TIMES):
        parser, chunk, started = LineParser(LISTING, companies), ParsedChunk(), time.process_time()
        for line in lines:
            parser.parse(line, chunk)
        taken.append((time.process_time() - started) * 1e6 / len(lines))
    return min(taken)


def _parsed_by(version: str, path: Path) -> float:
    command = [sys.executable, "-P", __file__, "--parse", str(path)]
    # The program that runs is this one, what it imports is of the version.
    environment = {**os.environ, "PYTHONPATH": version}
    done = subprocess.run(command, env=environment, capture_output=True, check=True)  # noqa: S603
    return float(done.stdout)


def _compare(name: str, path: Path, before: str, rounds: int) -> None:
    taken = [(_parsed_by(before, path), _parsed_by(str(Path.cwd()), path)) for _ in range(rounds)]
    old, new = (median(column) for column in zip(*taken, strict=True))
    ratio = median(new / old for old, new in taken)
    print(f"{name:16} before {old:6.2f} µs, after {new:6.2f} µs, ratio {ratio:.3f}")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", default="", help="the folder of a checkout of the other version")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--parse", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.parse:
        print(_parse(Path(given.parse)))
        return
    with tempfile.TemporaryDirectory() as name:
        write_source(Path(name) / "all", listings=2000)
        path = Path(name) / "all" / "listings.ndjson"
        _compare("whole acres", path, given.before, given.rounds)
        add_fractions(path)
        _compare("fractional acres", path, given.before, given.rounds)


if __name__ == "__main__":
    main()
