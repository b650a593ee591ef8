"""What the indexer takes: `python -m bench.load --before CHECKOUT [--listings N] [--rounds N]`.

Runs the commands of a checkout and of this one in turn on one node, each with its own indices, without merges. Prints
seconds and processor seconds of whole commands, and their peak memory; ratios are medians of the ratios of each round.
`python -m bench` has the same steps, of this checkout alone and with the default settings.
"""

import argparse
import asyncio
import datetime as dt
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import orjson
import uvloop

from bench.accounting import processor_seconds, processor_seconds_since
from bench.measure import Meter, watched_by
from bench.programs import OURS, Used, Version, measure_command, version
from bench.questions import ENGINE, INDEXER
from bench.results import Command, Commands, compared
from bench.stage import unload
from cluster.connection import ConnectionSettings, connect
from embedded import EmbeddedCluster, NodeOptions
from mappings import LISTING

_CHANGED = 20  # one in so many listings changes
_SETTINGS = {"BROKERAGE_MERGE_AFTER_BUILD": "false", "BROKERAGE_KEPT_GENERATIONS": "1"}
_LISTINGS, _COMPANIES = "listings.ndjson", "companies.ndjson"
_SINGLE = b'"platform_company_id":"harbor-lane-homes"'


class Step(NamedTuple):
    """A command of the indexer, and how many records it is about."""

    records: int
    arguments: tuple[str, ...]


def write_sources(folder: Path, listings: int, sampled: Version = OURS) -> dict[str, Step]:
    """Write the sources, of companies and listings, with the fields that `sampled` knows; return the steps in order."""
    first, second, many, one, single = (folder / name for name in ("first", "second", "many", "one", "single"))
    measure_command("sample", str(first), "--listings", str(listings), environment={}, ran=sampled)
    for file in first.iterdir():
        if file.name not in {_COMPANIES, _LISTINGS}:
            file.unlink()
    for each in (second, many, one, single):
        each.mkdir()
    companies = (first / _COMPANIES).read_bytes()
    (second / _COMPANIES).write_bytes(companies)
    (single / _COMPANIES).write_bytes(b"".join(line for line in companies.splitlines(keepends=True) if _SINGLE in line))
    changed = of_single = 0
    with (
        (first / _LISTINGS).open("rb") as lines,
        (second / _LISTINGS).open("wb") as everything,
        (many / _LISTINGS).open("wb") as changes,
        (one / _LISTINGS).open("wb") as change,
        (single / _LISTINGS).open("wb") as company,
    ):
        for at, line in enumerate(lines):
            new = line if at % _CHANGED else _changed(line)
            everything.write(new)
            if new != line:
                changed += bool(at)
                (changes if at else change).write(new)
            if _SINGLE in new:
                of_single += 1
                company.write(new)
    return {
        "load": Step(listings, ("reindex", str(first))),
        "verification": Step(listings, ("verify", str(first))),
        f"update of 1 in {_CHANGED}": Step(changed, ("update", str(many))),
        "update of one": Step(1, ("update", str(one))),
        "compaction": Step(listings, ("compact", LISTING.alias)),
        "rebuild of one company": Step(of_single, ("reindex", str(single))),
        "rebuild": Step(listings, ("reindex", str(second))),
    }


def _changed(line: bytes) -> bytes:
    envelope = orjson.loads(line)
    envelope["updated_at"] = dt.datetime.now(dt.UTC).isoformat()
    envelope["record"]["ListPrice"] = 1_000
    return orjson.dumps(envelope) + b"\n"


def _run(url: str, ran: Version, prefix: str, step: Step, settings: Mapping[str, str] = _SETTINGS) -> Used:
    environment = {"ELASTICSEARCH_URL": url, "BROKERAGE_INDEX_PREFIX": prefix, **settings}
    return measure_command("index", *step.arguments, environment=environment, ran=ran)


async def measure_commands(url: str, prefix: str, listings: int, meter: Meter) -> Commands:
    """Do each step once, with the settings that operators have, in indices of its own that are deleted afterwards."""
    engine = watched_by(ENGINE, meter.processes)
    connection = ConnectionSettings(url=(url,), prefix=prefix)
    taken: dict[str, Command] = {}
    with tempfile.TemporaryDirectory(prefix="bench-source-") as name:
        steps = write_sources(Path(name), listings)
        source_bytes = (Path(name) / "first" / _LISTINGS).stat().st_size
        index_bytes = 0
        for what, step in steps.items():
            meter.progress.report(f"commands: {what}")
            before = processor_seconds(engine)
            used = await asyncio.to_thread(_run, url, OURS, prefix, step, {})
            cpu = {INDEXER: used.processor} | processor_seconds_since(before, engine)
            taken[what] = Command(step.records, used.seconds, cpu, used.memory)
            if what == "verification":  # the segments that the load merged are deleted by now
                index_bytes = await _primary_bytes(connection)
        await unload(connection)
    return Commands(listings, source_bytes, index_bytes, taken)


async def _primary_bytes(connection: ConnectionSettings) -> int:
    """Return the bytes of the index of listings, one copy."""
    async with connect(connection, connections=1, timeout=600) as client:
        found = await client.indices.stats(index=connection.alias(LISTING), metric="store")
        return int(found["_all"]["primaries"]["store"]["size_in_bytes"])


async def _compare_versions(url: str, steps: dict[str, Step], before: Path, rounds: int) -> None:
    versions = {"before-": version(before), "after-": version(Path.cwd())}
    taken = defaultdict[str, list[dict[str, Used]]](list)
    for number in range(rounds):
        for name, step in steps.items():
            order = list(versions)[:: -1 if number % 2 else 1]
            used = {prefix: await asyncio.to_thread(_run, url, versions[prefix], prefix, step) for prefix in order}
            taken[name].append(used)
        for prefix in versions:
            await unload(ConnectionSettings(url=(url,), prefix=prefix))
    for name, each in taken.items():
        pairs = [(used["before-"], used["after-"]) for used in each]
        compared(name, "s", [(old.seconds, new.seconds) for old, new in pairs])
        compared("  processor", "s", [(old.processor, new.processor) for old, new in pairs])
        compared("  memory", "MB", [(old.memory / 1e6, new.memory / 1e6) for old, new in pairs])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="the folder of a checkout of the other version")
    parser.add_argument("--listings", type=int, default=100_000, help="records to load")
    parser.add_argument("--rounds", type=int, default=3, help="how often each step is measured")
    parser.add_argument("--heap", type=int, default=2048, help="the node's heap in MB")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        steps = write_sources(Path(name), given.listings, version(given.before))
        with EmbeddedCluster(NodeOptions(ephemeral=True, heap_mb=given.heap)) as cluster:
            uvloop.run(_compare_versions(cluster.url, steps, given.before, given.rounds))


if __name__ == "__main__":
    main()
