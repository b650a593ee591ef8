"""What the rebuild of one company takes next to records of others: `python -m bench.company_rebuild`.

Two installations on one node of its own, with `--others` records of other companies in one and as many as the company
has in the other. The company's source changes by a twentieth each time; both are rebuilt in turn. Prints the seconds of
a rebuild in each, medians, and the ratio.
"""

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from indexer import IndexerContext, IndexerSettings, reindex
from indexer.source.opener import FolderSource
from mappings import COMPANY, LISTING
from sample import write_source

_OWN, _OTHERS = "own", ("other-a", "other-b", "other-c")
_CHANGED = 20  # one in so many records changes with each rebuild
# Large members make the load of the others long, and a rebuild of the company no different.
_LEFT_OUT = ("ListingImages", "PropertyFeatures")


@dataclass(frozen=True)
class Installation:
    """Indices under one prefix, and the folder of the sources."""

    engine: IndexerContext
    folder: Path
    template: dict[str, Any]

    async def load(self, companies: tuple[str, ...], count: int, number: int = 0) -> float:
        """Rebuild `count` listings of some companies in their `number`-th state; return the seconds for listings."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = [{"updated_at": "2026-01-01T00:00:00Z", "record": _company(name)} for name in companies]
        (self.folder / "companies.ndjson").write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
        with (self.folder / "listings.ndjson").open("wb") as file:
            file.writelines(self._lines(companies, count, number))
        source = FolderSource(self.folder)
        if not number:
            _check(await reindex(self.engine, source, resources=[COMPANY], force=True))
        started = time.perf_counter()
        _check(await reindex(self.engine, source, resources=[LISTING], force=True))
        return time.perf_counter() - started

    def _lines(self, companies: tuple[str, ...], count: int, number: int) -> Iterator[bytes]:
        for at in range(count):
            yield self.line(companies, at, number if at % _CHANGED == number % _CHANGED else 0)

    def line(self, companies: tuple[str, ...], at: int, state: int) -> bytes:
        """Return the line of the `at`-th listing in its `state`-th state."""
        self.template["platform_company_id"] = companies[at % len(companies)]
        self.template["updated_at"] = f"2026-01-01T00:{state:02}:00Z"
        self.template["record"] |= {"PlatformListingId": f"{companies[0]}-{at}", "ListPrice": 100_000 + state}
        return orjson.dumps(self.template) + b"\n"


def _company(name: str) -> dict[str, Any]:
    return {"platform_company_id": name, "name": name, "numeric_id": None, "public_partner_attrs": {"is_nrt": False}}


def _check(summary: Any) -> None:
    if summary.exit_code:
        raise SystemExit(f"The rebuild failed: {[report for report in summary.resources if report.refusal]}")


def small_listing(folder: Path) -> dict[str, Any]:
    """Return a generated listing without its largest members."""
    write_source(folder, listings=10)
    with (folder / "listings.ndjson").open("rb") as file:
        envelope: dict[str, Any] = orjson.loads(file.readline())
    envelope["record"] = {name: value for name, value in envelope["record"].items() if name not in _LEFT_OUT}
    return envelope


async def _measure(url: str, folder: Path, given: argparse.Namespace) -> None:
    settings = IndexerSettings(dead_letter_folder=str(folder / "dead"))
    template, counts = small_listing(folder / "sample"), {"few-": given.records, "many-": given.others}
    connection = ConnectionSettings(url=(url,))
    async with connect(connection, connections=8, timeout=600) as client:
        places = {}
        for prefix, count in counts.items():
            engine = IndexerContext(client, ConnectionSettings(url=(url,), prefix=prefix), settings)
            places[prefix] = Installation(engine, folder / prefix, template)
            taken = await places[prefix].load(_OTHERS, count)
            print(f"{count:,} records of others: {taken:.0f} s", flush=True)
            await places[prefix].load((_OWN,), given.records)
        rounds = [
            [await each.load((_OWN,), given.records, at + 1) for each in places.values()] for at in range(given.rounds)
        ]
    few, many = (median(column) for column in zip(*rounds, strict=True))
    ratio = median(with_many / with_few for with_few, with_many in rounds)
    print(
        f"rebuild of {given.records:,} records: {few:.2f} s next to {given.records:,}, {many:.2f} s next to "
        f"{given.others:,}, ratio {ratio:.2f} (medians of {given.rounds} rounds)"
    )


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--others", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, EmbeddedCluster(NodeOptions(ephemeral=True)) as cluster:
        asyncio.run(_measure(cluster.url, Path(name), given))


if __name__ == "__main__":
    main()
