"""What the indexer's work on one listing costs before it is sent: `python -m bench.intake [FOLDER] [--rounds N]`.

FOLDER is a source, as `brokerage index reindex` reads it; without one, 3,000 listings are generated. Printed are
microseconds of processor time per listing, the least of all rounds with the median behind it: for each step on the
quick way of settled records and on the thorough way of all others, both taken by the same listings, and for the whole
as the indexer does it. What disturbs a processor only ever adds time, hence the least.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from indexer import companies
from indexer.directory import Directory
from indexer.documents import Drafter
from indexer.envelope import Decoder, settled_decoder
from indexer.intake import Chunk, Intake
from indexer.listing_rules import listing_rules
from indexer.records import Completion
from mappings import LISTING
from sample import write_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from indexer.companies import Companies
    from indexer.source import Line

_LISTINGS = 3_000
# As many at a time as the processor's caches hold: the indexer finishes one before it begins the next.
_BATCH = 10
_STAMP = (1_795_000_000_000, 1)


@dataclass
class Step:
    """One step of the work, with the microseconds per listing that it took in each round."""

    name: str
    run: Callable[[Any], Any]
    microseconds: list[float] = field(default_factory=list)
    _seconds: float = 0.0

    def over(self, batch: Iterable[Any]) -> list[Any]:
        """Do the step for each of a batch and return what came of it."""
        started = time.process_time()
        made = [self.run(one) for one in batch]
        self._seconds += time.process_time() - started
        return made

    def end_round(self, listings: int) -> None:
        """Note what the round took."""
        self.microseconds.append(self._seconds * 1e6 / listings)
        self._seconds = 0.0

    def line(self) -> str:
        """Return the least and the median."""
        return f"{self.name:30} {min(self.microseconds):6.1f} ({statistics.median(self.microseconds):.1f})"


def _steps(known: Companies, *, is_settled: bool) -> list[Step]:
    """Return the steps of one way; each takes what the one before it has made."""
    completion, rules, draft = Completion(LISTING.stored), listing_rules(LISTING), Drafter(LISTING)
    complete = completion.settled if is_settled else completion.any
    way = "quick" if is_settled else "thorough"

    def drafted(pair: tuple[Line, Any]) -> Any:
        line, envelope = pair
        return draft(line, envelope, known.resolve(envelope))

    return [
        Step(f"{way}: decode", settled_decoder(LISTING) if is_settled else Decoder(LISTING)),
        Step(f"{way}: complete", lambda envelope: complete(envelope.record)),
        Step(f"{way}: rules", rules),
        Step(f"{way}: company and draft", drafted),
        Step(f"{way}: source", lambda made: made.source(*_STAMP)),
    ]


def _one_round(lines: list[Line], steps: list[Step]) -> None:
    decode, complete, rules, draft, source = steps
    for batch in _batches(lines):
        envelopes = decode.over(line.data for line in batch)
        complete.over(envelopes)
        rules.over(envelopes)
        source.over(draft.over(zip(batch, envelopes, strict=True)))


def _batches(lines: list[Line]) -> Iterator[list[Line]]:
    for start in range(0, len(lines), _BATCH):
        yield lines[start : start + _BATCH]


def _measured(source: Directory, rounds: int) -> tuple[int, list[Step]]:
    """Return the mean size of a line in bytes, and the steps with what they took."""
    with source.open(LISTING) as reading:
        lines = list(islice(reading.sound, _LISTINGS))
    known = companies.from_source(source)
    intake, ways = Intake(LISTING, known), [_steps(known, is_settled=quick) for quick in (True, False)]
    chunk = Chunk()
    whole = Step("whole, as the indexer does it", lambda line: intake.accept(line, chunk).source(*_STAMP))
    steps = [*(step for way in ways for step in way), whole]
    for _ in range(rounds):
        for way in ways:
            _one_round(lines, way)
        for batch in _batches(lines):
            whole.over(batch)
        for step in steps:
            step.end_round(len(lines))
    return sum(len(line.data) for line in lines) // len(lines), steps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.folder or Path(made) / "source"
        if arguments.folder is None:
            write_source(folder, _LISTINGS)
        size, steps = _measured(Directory(folder), arguments.rounds)
    print(f"listings of {size:,} bytes, {arguments.rounds} rounds, µs of processor time per listing")
    for step in steps:
        print(step.line())


if __name__ == "__main__":
    main()
