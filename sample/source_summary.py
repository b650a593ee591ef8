"""What was written, for the caller and for the README.txt of the source directory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from sample.sample_clock import SampleClock, format_timestamp

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
        """All records of all resources."""
        return sum(self.counts.values())


def readme(summary: SourceSummary, clock: SampleClock) -> str:
    """Return the text of README.txt, which says that the data is generated."""
    counts = "\n".join(f"  {resource}: {count}" for resource, count in summary.counts.items())
    return _README.format(mark=README_FIRST_LINE, now=format_timestamp(clock.now), seed=summary.seed, counts=counts)
