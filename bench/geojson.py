"""What a page of features costs beside the same page in JSON: `python -m bench.geojson [--rounds N] [--records N]`.

Printed are microseconds of processor time per page, the least of all rounds with the median behind it, of making the
parts of the body and of tagging it (which every answer pays), and the ratio of the two forms. The arms take turns page
by page. What disturbs a processor only ever adds time, hence the least.
"""

from __future__ import annotations

import argparse
import tempfile
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from bench.intake import Step
from indexer import companies
from indexer.directory import Directory
from indexer.intake import Chunk, Intake
from mappings import LISTING
from mappings.document import MARK
from mappings.fields import View
from sample import write_source
from service import geojson
from service.conditional import entity_tag
from service.encoding.negotiation import Coding
from service.parts import Parts
from service.projection import Variant
from service.responses import array

if TYPE_CHECKING:
    from service.answer import Encoded

_PAGES = 20
_PLAIN, _UNDERSCORED = Variant(LISTING, View.INDEX), Variant(LISTING, View.INDEX, underscored=True)


def _stored(folder: Path, listings: int) -> list[bytes]:
    """Return generated listings as the indexer stores them."""
    write_source(folder, listings)
    source = Directory(folder)
    intake, chunk = Intake(LISTING, companies.from_source(source)), Chunk()
    with source.open(LISTING) as reading:
        return [intake.accept(line, chunk).source(1, 1).split(MARK)[1] for line in islice(reading.sound, listings)]


def _json(variant: Variant, page: list[Encoded]) -> str:
    head = b'{"FinalPage":false,"Listings":'
    return entity_tag(Parts(array(variant.encode(page), head, b"}")), Coding.IDENTITY)


def _features(variant: Variant, page: list[Encoded]) -> str:
    return entity_tag(Parts(geojson.collection(variant, variant.encode(page), final=False)), Coding.IDENTITY)


def _arms() -> list[Step]:
    return [
        Step("JSON", lambda page: _json(_PLAIN, page)),
        Step("GeoJSON", lambda page: _features(_PLAIN, page)),
        Step("JSON, underscored", lambda page: _json(_UNDERSCORED, page)),
        Step("GeoJSON, underscored", lambda page: _features(_UNDERSCORED, page)),
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--records", type=int, default=200, help="records of a page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        stored = _stored(Path(folder) / "source", given.records * _PAGES)
    pages = [stored[start : start + given.records] for start in range(0, len(stored), given.records)]
    arms = _arms()
    for _ in range(given.rounds):
        for page in pages:
            for arm in arms:
                arm.over([page])
        for arm in arms:
            arm.end_round(len(pages))
    print(f"{len(pages)} pages of {given.records} listings, {given.rounds} rounds, µs of processor time per page")
    for arm in arms:
        print(arm.line())
    for plain, features in zip(arms[::2], arms[1::2], strict=True):
        print(f"{features.name} / {plain.name}: {min(features.microseconds) / min(plain.microseconds):.2f}")


if __name__ == "__main__":
    main()
