"""`index verify` compared with the load of the same source: `python -m bench.verify_cost [--listings N]`.

Sample data, then the same with each listing three times, as joined snapshots have them. Prints seconds and the ratios.
Runs on a node of its own, or the one that ELASTICSEARCH_URL names.
"""

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from bench.scratch import node_url, scratch_indexer
from indexer import IndexerSettings, open_source, reindex
from indexer.verify.verification import verify_against_source
from sample import write_source


async def _measure(url: str, folder: Path, kind: str) -> None:
    settings = IndexerSettings(dead_letter_folder=str(folder / "dead"), merge=False)
    async with scratch_indexer(url, settings) as context:
        with open_source(str(folder / "all")) as source:
            started = time.perf_counter()
            await reindex(context, source)
            load, started = time.perf_counter() - started, time.perf_counter()
            results = await verify_against_source(context, source)
            verify = time.perf_counter() - started
        equal = all(result.is_equal for result in results)
        print(f"{kind}: load {load:.1f} s, verify {verify:.1f} s, ratio {verify / load:.2f}, equal: {equal}")


async def _measure_both(url: str, folder: Path, listings: int) -> None:
    write_source(folder / "all", listings=listings)
    await _measure(url, folder, "each listing once")
    path = folder / "all" / "listings.ndjson"
    path.write_bytes(path.read_bytes() * 3)
    await _measure(url, folder, "each listing three times")


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--listings", type=int, default=30_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="brokerage-verify-") as name, node_url() as url:
        asyncio.run(_measure_both(url, Path(name), options.listings))


if __name__ == "__main__":
    main()
