"""What it costs to answer a stored listing in another form: `python -m bench.projection [--rounds N]`.

Printed are microseconds of processor time per listing, the least of all rounds with the median behind it, of every
form of listings and, beside them, of parsing and encoding the same records with nothing done in between. All arms take
the same ten listings before they go on to the next ten. What disturbs a processor only ever adds time, hence the least.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import islice
from pathlib import Path

import orjson

from bench.intake import Step
from indexer import companies
from indexer.directory import Directory
from indexer.intake import Chunk, Intake
from mappings import LISTING
from mappings.document import MARK
from mappings.fields import View
from sample import write_source
from service.projection import Variant

_LISTINGS = 600
_BATCH = 10


def _stored(folder: Path) -> list[bytes]:
    """Return generated listings as the indexer stores them."""
    write_source(folder, _LISTINGS)
    source = Directory(folder)
    intake, chunk = Intake(LISTING, companies.from_source(source)), Chunk()
    with source.open(LISTING) as reading:
        lines = list(islice(reading.sound, _LISTINGS))
    return [intake.accept(line, chunk).source(1, 1).split(MARK)[1] for line in lines]


def _arms() -> list[Step]:
    forms = {
        "underscored, of a page": Variant(LISTING, View.INDEX, underscored=True),
        "underscored, shown alone": Variant(LISTING, View.SHOW, underscored=True),
        "shown alone": Variant(LISTING, View.SHOW),
    }
    parsing = Step("parsed and encoded, nothing done", lambda batch: [orjson.dumps(orjson.loads(one)) for one in batch])
    return [parsing, *(Step(name, variant.encode) for name, variant in forms.items())]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        stored = _stored(Path(folder) / "source")
    arms = _arms()
    for _ in range(rounds):
        for start in range(0, len(stored), _BATCH):
            for arm in arms:
                arm.over([stored[start : start + _BATCH]])
        for arm in arms:
            arm.end_round(len(stored))
    size = sum(map(len, stored)) // len(stored)
    print(f"{len(stored):,} listings of {size:,} bytes, {rounds} rounds, µs of processor time per listing")
    for arm in arms:
        print(arm.line())


if __name__ == "__main__":
    main()
