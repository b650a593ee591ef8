"""What the gate's look at identities takes of a rebuild: `python -m bench.gate_cost [--listings N]`.

Loads sample data, then rebuilds it with each twentieth listing left out, and prints the seconds of the rebuild and of
the gate within it. Runs on a node of its own, or the one that ELASTICSEARCH_URL names.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.scratch import node_url, scratch_indexer
from indexer import IndexerSettings, open_source, reindex
from sample import write_source

_LEFT_OUT = 20
_GATE = ("indexer.generations.gates.find_removals", "indexer.rebuild.check_references")


@dataclass
class Stopwatch:
    """Adds up the seconds of some calls."""

    seconds: float = 0.0

    def timed(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return the call, timed."""

        async def timed(*given: Any) -> Any:
            started = time.perf_counter()
            try:
                return await call(*given)
            finally:
                self.seconds += time.perf_counter() - started

        return timed


async def _measure(url: str, folder: Path, listings: int) -> None:
    settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False, shrink_limit=0.1)
    write_source(folder / "all", listings=listings)
    async with scratch_indexer(url, settings) as context:
        for round_number in range(2):
            gate, started = Stopwatch(), time.perf_counter()
            with ExitStack() as patches, open_source(str(folder / "all")) as source:
                for name in _GATE:
                    module, _, call = name.rpartition(".")
                    timed = gate.timed(getattr(__import__(module, fromlist=[call]), call))
                    patches.enter_context(patch(name, timed))
                summary = await reindex(context, source)
            total, removed = time.perf_counter() - started, sum(each.vanished for each in summary.resources)
            kind = "rebuild" if round_number else "first build"
            share = gate.seconds / total
            print(f"{kind}: {total:.1f} s, gate {gate.seconds:.2f} s ({share:.1%}), {removed:,} removed")
            _leave_out(folder / "all" / "listings.ndjson")


def _leave_out(path: Path) -> None:
    """Remove each twentieth line of a file."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for number, line in enumerate(lines) if number % _LEFT_OUT))


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="brokerage-gate-") as name, node_url() as url:
        asyncio.run(_measure(url, Path(name), options.listings))


if __name__ == "__main__":
    main()
